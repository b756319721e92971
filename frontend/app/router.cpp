#include "app/router.h"

#include <algorithm>

#include "core/code.h"

namespace shortener {

Route route(std::string_view target) noexcept {
    const std::string_view path = target.substr(0, std::min(target.find('?'), target.size()));
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
