#pragma once

#include <cstddef>

namespace shortener {

// What a request may be at most; more is refused with 431, 414, 431 and 413.
struct RequestLimits {
    std::size_t head_bytes = 16384;
    std::size_t target_bytes = 4096;
    std::size_t fields = 100;
    std::size_t body_bytes = 65536;
};

} // namespace shortener
