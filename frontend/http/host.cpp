#include "http/host.h"

#include <algorithm>

#include "core/ascii.h"

namespace shortener {

namespace {

constexpr std::size_t longest_host = 253; // of the domain name system
constexpr std::size_t longest_port = 6;   // with its colon

bool is_port(std::string_view text) {
    return text.empty() || (text.front() == ':' && text.size() <= longest_port &&
                            std::all_of(text.begin() + 1, text.end(), is_ascii_digit));
}

bool is_name(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) {
        return is_ascii_digit(c) || is_ascii_letter(c) || c == '-' || c == '.' || c == '_';
    });
}

// What stands between the brackets of an IPv6 address.
bool is_address(std::string_view text) {
    return text.find(':') != std::string_view::npos && std::all_of(text.begin(), text.end(), [](char c) {
               return hex_value(c) >= 0 || c == ':' || c == '.';
           });
}

} // namespace

bool read_host(std::string_view text, std::string& host) {
    const bool bracketed = text.starts_with('[');
    const std::size_t end = bracketed ? text.find(']') : std::min(text.find(':'), text.size());
    if (end == std::string_view::npos)
        return false;
    std::string_view name = text.substr(0, bracketed ? end + 1 : end);
    const std::string_view port = text.substr(name.size());
    if (!is_port(port) || !(bracketed ? is_address(name.substr(1, end - 1)) : is_name(name)))
        return false;
    if (!bracketed && name.size() > 1 && name.back() == '.')
        name.remove_suffix(1);
    if (name.size() > longest_host)
        return false;
    host.resize(name.size());
    std::transform(name.begin(), name.end(), host.begin(), ascii_lower);
    return true;
}

} // namespace shortener
