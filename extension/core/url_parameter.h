#pragma once

#include <span>
#include <string_view>

namespace shortener {

// The value of the first parameter of that name in the query of a canonical URL, as
// application/x-www-form-urlencoded has it: + is a space, %XX a byte. It is written into `storage`, which may
// be shorter, and may be cut within a character of UTF-8. Empty if there is none.
std::string_view url_parameter(std::string_view url, std::string_view name, std::span<char> storage) noexcept;

} // namespace shortener
