#include "router.h"

#include <algorithm>

namespace shortener {

namespace {

bool is_code_character(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-';
}

} // namespace

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
    if (code.size() > max_code_length || !std::all_of(code.begin(), code.end(), is_code_character))
        return {};
    return {Place::link, code};
}

} // namespace shortener
