#include "app/router.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "core/ascii.h"
#include "core/code.h"

namespace shortener {

namespace {

// An encoded slash does not separate anything, so that it cannot be part of a path of ours.
std::optional<std::string_view> decode(std::string_view path, RouteStorage& storage) noexcept {
    std::size_t length = 0;
    for (std::size_t i = 0; i < path.size(); i++) {
        char c = path[i];
        if (c == '%') {
            const int high = i + 2 < path.size() ? hex_value(path[i + 1]) : -1;
            const int low = high >= 0 ? hex_value(path[i + 2]) : -1;
            c = static_cast<char>(high * 16 + low);
            if (low < 0 || c == '/')
                return std::nullopt;
            i += 2;
        }
        if (length == storage.size())
            return std::nullopt;
        storage[length++] = c;
    }
    return std::string_view(storage.data(), length);
}

} // namespace

Route route(std::string_view target, RouteStorage& storage) noexcept {
    std::string_view path = target.substr(0, std::min(target.find('?'), target.size()));
    if (path.find('%') != path.npos)
        path = decode(path, storage).value_or(std::string_view());
    if (path == "/robots.txt")
        return {Place::robots, {}};
    if (path == "/favicon.ico")
        return {Place::favicon, {}};
    if (path.size() < 2 || path.front() != '/')
        return {};
    std::string_view code = path.substr(1);
    if (code.size() > 1 && code.back() == '/')
        code.remove_suffix(1);
    if (!is_code(code))
        return {};
    return {Place::link, code};
}

} // namespace shortener
