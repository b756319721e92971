#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace shortener {

// Base62 numbers over the alphabet 0-9a-zA-Z, in this order, without leading zeros: a bijection between
// 0 … 2^63−1 and the strings that encode gives.

inline constexpr std::size_t base62_max_length = 11; // 2^63−1 is aZl8N0y58M7

enum class Base62Error { none, empty, foreign_character, leading_zero, out_of_range, negative };

// Writes the digits to the front of `out` and says how many there are. `value` must not be negative.
std::size_t base62_encode(std::int64_t value, std::span<char, base62_max_length> out) noexcept;

// `value` is set only when the answer is none.
Base62Error base62_decode(std::string_view digits, std::int64_t& value) noexcept;

} // namespace shortener
