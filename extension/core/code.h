#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "core/ascii.h"

namespace shortener {

inline constexpr std::size_t code_max_length = 50;

// Whether a link may have this code: 1 to 50 characters of A-Z, a-z, 0-9, _ and -, as the table link checks.
constexpr bool is_code(std::string_view text) noexcept {
    return !text.empty() && text.size() <= code_max_length &&
           std::all_of(text.begin(), text.end(), [](char c) {
               return is_ascii_digit(c) || is_ascii_letter(c) || c == '_' || c == '-';
           });
}

} // namespace shortener
