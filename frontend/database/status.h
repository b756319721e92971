#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace shortener {

// What the threads know of the database, for each other and for /readyz.
struct DatabaseStatus {
    explicit DatabaseStatus(int threads)
        : threads(threads), confirmed_(std::make_unique<std::atomic<std::uint64_t>[]>(threads)) {}

    // A thread has had an answer.
    void confirm(std::size_t thread) { confirmed_[thread] = returned.load(); }
    // How many have since the database returned.
    int confirmed() const {
        return static_cast<int>(std::count(confirmed_.get(), confirmed_.get() + threads, returned.load()));
    }

    const int threads;
    std::atomic<int> resolving{0};          // threads whose connection resolves codes
    std::atomic<int> without_workspace{0};  // threads that found no default workspace
    std::atomic<std::uint64_t> returned{0}; // times that the listener found the database: ask at once

  private:
    std::unique_ptr<std::atomic<std::uint64_t>[]> confirmed_; // by thread: `returned` at its last answer
};

} // namespace shortener
