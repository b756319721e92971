#include "core/base62.h"

#include <array>
#include <cstring>
#include <limits>

namespace shortener {

namespace {

constexpr std::string_view alphabet = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
constexpr std::uint64_t base = alphabet.size();

// Two digits at a time: half the divisions.
constexpr auto digit_pairs = [] {
    std::array<char, base * base * 2> pairs{};
    for (std::size_t i = 0; i < base * base; i++) {
        pairs[2 * i] = alphabet[i / base];
        pairs[2 * i + 1] = alphabet[i % base];
    }
    return pairs;
}();

constexpr auto digit_values = [] {
    std::array<signed char, 256> values{};
    values.fill(-1);
    for (std::size_t i = 0; i < base; i++)
        values[static_cast<unsigned char>(alphabet[i])] = static_cast<signed char>(i);
    return values;
}();

} // namespace

std::size_t base62_encode(std::int64_t value, std::span<char, base62_max_length> out) noexcept {
    char digits[base62_max_length + 1]; // pairs may write one leading zero more
    char* const end = digits + sizeof digits;
    char* begin = end;
    auto rest = static_cast<std::uint64_t>(value);
    while (rest >= base) {
        begin -= 2;
        std::memcpy(begin, &digit_pairs[2 * (rest % (base * base))], 2);
        rest /= base * base;
    }
    if (rest > 0 || begin == end)
        *--begin = alphabet[rest];
    else if (*begin == '0')
        ++begin;
    const auto length = static_cast<std::size_t>(end - begin);
    std::memcpy(out.data(), begin, length);
    return length;
}

Base62Error base62_decode(std::string_view digits, std::int64_t& value) noexcept {
    if (digits.empty())
        return Base62Error::empty;
    for (const unsigned char c : digits)
        if (digit_values[c] < 0)
            return Base62Error::foreign_character;
    if (digits.size() > 1 && digits.front() == '0')
        return Base62Error::leading_zero;
    if (digits.size() > base62_max_length)
        return Base62Error::out_of_range;

    constexpr std::uint64_t max = std::numeric_limits<std::int64_t>::max();
    std::uint64_t number = 0;
    for (const unsigned char c : digits) {
        const auto digit = static_cast<std::uint64_t>(digit_values[c]);
        if (number > (max - digit) / base)
            return Base62Error::out_of_range;
        number = number * base + digit;
    }
    value = static_cast<std::int64_t>(number);
    return Base62Error::none;
}

} // namespace shortener
