#include "core/snowflake.h"

#include <algorithm>

namespace shortener {

std::int64_t snowflake_next(SnowflakeClock& clock, std::int64_t unix_ms, int node) noexcept {
    const auto ms = static_cast<std::uint64_t>(std::max<std::int64_t>(unix_ms - snowflake_epoch_ms, 0));
    const std::uint64_t now = ms << snowflake_sequence_bits;

    std::uint64_t last = clock.load(std::memory_order_relaxed);
    std::uint64_t next;
    do
        next = std::max(last + 1, now);
    while (!clock.compare_exchange_weak(last, next, std::memory_order_relaxed));

    const std::uint64_t time = next >> snowflake_sequence_bits;
    if (time >> 41 != 0)
        return -1;
    const std::uint64_t sequence = next & ((1 << snowflake_sequence_bits) - 1);
    return static_cast<std::int64_t>((time << snowflake_node_bits | static_cast<std::uint64_t>(node))
                                         << snowflake_sequence_bits |
                                     sequence);
}

} // namespace shortener
