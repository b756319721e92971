#pragma once

#include <string_view>

namespace shortener {

bool is_ascii(std::string_view bytes) noexcept;

// Whether any byte is below 0x20.
bool has_control(std::string_view bytes) noexcept;

// Well-formed as Unicode says: no overlong form, no surrogate, nothing above U+10FFFF.
bool is_utf8(std::string_view bytes) noexcept;

} // namespace shortener
