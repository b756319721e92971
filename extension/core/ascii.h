#pragma once

// Characters without a locale.

#include <string_view>

namespace shortener {

constexpr bool is_ascii_digit(char c) noexcept {
    return c >= '0' && c <= '9';
}
constexpr char ascii_lower(char c) noexcept {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
}
constexpr bool is_ascii_letter(char c) noexcept {
    return ascii_lower(c) >= 'a' && ascii_lower(c) <= 'z';
}

constexpr bool is_ascii_blank(char c) noexcept {
    return c == ' ' || c == '\t';
}

// Without the blanks at both ends.
constexpr std::string_view ascii_trim(std::string_view text) noexcept {
    while (!text.empty() && is_ascii_blank(text.front()))
        text.remove_prefix(1);
    while (!text.empty() && is_ascii_blank(text.back()))
        text.remove_suffix(1);
    return text;
}

// The value of a hexadecimal digit, or -1.
constexpr int hex_value(char c) noexcept {
    if (is_ascii_digit(c))
        return c - '0';
    const char lower = ascii_lower(c);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

} // namespace shortener
