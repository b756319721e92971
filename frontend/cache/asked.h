#pragma once

#include <chrono>
#include <cstdint>

#include "clock.h"

namespace shortener {

// Counts the invalidations of a cache.
using Ticket = std::uint64_t;

// When an answer was asked for. It is kept only if no invalidation came after `ticket` was taken, which is
// before the query was sent. An answer cannot be older than its query, except on a standby: then it is not
// kept either if an invalidation came less than `hold_off` before it.
struct Asked {
    Ticket ticket = 0;
    Clock::time_point when;
    std::chrono::milliseconds hold_off{0};
};

} // namespace shortener
