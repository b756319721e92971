#pragma once

#include <cstdint>

#include "core/siphash.h"

namespace shortener {

// Keyed scrambling of a sequence, so that codes are short, never collide and cannot be walked.
//
// scramble maps 0, 1, 2 … one to one onto the Base62 numbers of at least seven digits: first, in an order
// that only the key tells, all 61·62^6 numbers of seven digits, then those of eight, and so on to 2^63−1.
// Within a length the order is a pseudo-random permutation: a Feistel network of ten rounds (as many as
// FF1 of NIST SP 800-38G has) over SipHash-2-4, walking the cycle until it lands inside the domain.

inline constexpr std::int64_t scramble_first = 56'800'235'584; // 62^6, the smallest number of seven digits

// The sequence values that have a code: 0 … scramble_count − 1, about 9.2·10^18.
inline constexpr std::int64_t scramble_count = INT64_MAX - scramble_first + 1;

// `position` in 0 … scramble_count − 1.
std::int64_t scramble(const SipKey& key, std::int64_t position) noexcept;

// The inverse; `number` in scramble_first … 2^63−1.
std::int64_t unscramble(const SipKey& key, std::int64_t number) noexcept;

// The permutation behind it, of 0 … size − 1 for any 1 ≤ size ≤ 2^63; `tweak` chooses among independent ones.
std::uint64_t permute(const SipKey& key, std::uint64_t tweak, std::uint64_t size,
                      std::uint64_t value) noexcept;
std::uint64_t unpermute(const SipKey& key, std::uint64_t tweak, std::uint64_t size,
                        std::uint64_t value) noexcept;

} // namespace shortener
