#pragma once

#include <atomic>
#include <cstdint>

namespace shortener {

// What the threads know of the database, for each other and for /readyz.
struct DatabaseStatus {
    explicit DatabaseStatus(int threads) : threads(threads) {}

    const int threads;
    std::atomic<int> resolving{0};          // threads whose connection resolves codes
    std::atomic<int> without_workspace{0};  // threads that found no default workspace
    std::atomic<std::uint64_t> returned{0}; // times that the listener found the database: try at once
};

} // namespace shortener
