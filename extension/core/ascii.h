#pragma once

// Characters without a locale.

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

// The value of a hexadecimal digit, or -1.
constexpr int hex_value(char c) noexcept {
    if (is_ascii_digit(c))
        return c - '0';
    const char lower = ascii_lower(c);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

} // namespace shortener
