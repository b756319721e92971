#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "cache/cache.h"

namespace shortener {

// Counters of one thread, atomic because another one reads them.
struct Counters {
    static constexpr std::array<int, 15> statuses = {200, 204, 301, 302, 307, 308, 400, 404,
                                                     405, 408, 410, 413, 414, 431, 503};
    // Upper bounds in microseconds of the latency buckets; the last is infinity.
    static constexpr std::array<std::uint32_t, 11> latency_bounds = {
        50, 100, 250, 500, 1000, 2500, 5000, 10000, 100000, 500000, 1000000};
    static constexpr std::array<std::uint32_t, 7> batch_bounds = {1, 4, 16, 64, 128, 256, 512};

    using Counter = std::atomic<std::uint64_t>;

    std::array<Counter, statuses.size() + 1> requests{}; // the last: any other status
    std::array<Counter, latency_bounds.size() + 1> latency{};
    Counter latency_microseconds{0};
    Counter hits_redirect{0}, hits_gone{0}, hits_unknown{0}, misses{0}, coalesced{0};
    Counter round_trips{0}, database_errors{0}, reconnects{0};
    std::array<Counter, batch_bounds.size() + 1> batches{};
    Counter batch_codes{0};
    Counter connections_opened{0}, connections_closed{0}, connections_refused{0};
    Counter in_flight_begun{0}, in_flight_ended{0};
    Counter clicks{0};

    void count_request(int status, std::uint64_t microseconds) noexcept;
    void count_batch(std::size_t codes) noexcept;
    static void add(Counter& counter, std::uint64_t amount = 1) noexcept {
        counter.fetch_add(amount, std::memory_order_relaxed);
    }
};

// Of what is on its way to be recorded.
struct RecordingCounters {
    std::atomic<std::uint64_t> waiting{0}, recorded{0}, dropped{0}, batches{0};
};

// What does not belong to a thread.
struct SharedCounters {
    std::atomic<bool> listening{false};
    std::atomic<std::uint64_t> notifications{0}, flushes{0}, listen_reconnects{0};
    RecordingCounters clicks, unknown_visits;
};

class Metrics {
  public:
    // One more slot than threads, for what sends clicks.
    explicit Metrics(std::size_t threads) : threads_(threads), counters_(std::make_unique<Slot[]>(threads)) {}

    // Each thread counts for itself, on cache lines of its own; a scrape adds up.
    Counters& slot(std::size_t thread) noexcept { return counters_[thread].counters; }

    // The sum over the threads of the counter that `pick` picks.
    template <typename Pick> std::uint64_t total(Pick&& pick) const {
        std::uint64_t sum = 0;
        for (std::size_t i = 0; i < threads_; i++)
            sum += pick(counters_[i].counters).load(std::memory_order_relaxed);
        return sum;
    }

    // In the text format of Prometheus.
    std::string text(const Cache::Sizes& cache, int database_connections) const;

    SharedCounters shared;

  private:
    struct alignas(128) Slot {
        Counters counters;
    };
    std::size_t threads_;
    std::unique_ptr<Slot[]> counters_;
};

} // namespace shortener
