#pragma once

#include <atomic>
#include <cstdint>

namespace shortener {

// Snowflake ids: from the top 1 unused bit, 41 bits of milliseconds since 2024-01-01 UTC, 10 bits of node
// and 12 bits of sequence. Ids of one node are unique and increasing as long as all who draw them share one
// SnowflakeClock.

inline constexpr std::int64_t snowflake_epoch_ms = 1'704'067'200'000; // 2024-01-01 in Unix time
inline constexpr int snowflake_node_bits = 10;
inline constexpr int snowflake_sequence_bits = 12;
inline constexpr int snowflake_max_node = (1 << snowflake_node_bits) - 1;

// The last instant given out: milliseconds << 12 | sequence.
using SnowflakeClock = std::atomic<std::uint64_t>;

// The instant after the last one or now, whichever is later. So nothing comes twice and nothing goes back
// when the clock does; a 4097th id within a millisecond borrows from the next.
// Gives −1 when the 41 bits are used up (in the year 2093).
std::int64_t snowflake_next(SnowflakeClock& clock, std::int64_t unix_ms, int node) noexcept;

constexpr std::int64_t snowflake_unix_ms(std::int64_t id) noexcept {
    return (id >> (snowflake_node_bits + snowflake_sequence_bits)) + snowflake_epoch_ms;
}

constexpr int snowflake_node(std::int64_t id) noexcept {
    return static_cast<int>(id >> snowflake_sequence_bits) & snowflake_max_node;
}

} // namespace shortener
