#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <iterator>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include "clock.h"
#include "database/statement_queue.h"
#include "log.h"
#include "metrics.h"

namespace shortener {

std::string random_uuid();

// Data that the database refuses (22), or that break a constraint (23), will be refused again.
bool is_hopeless(std::string_view sqlstate);

// Items on their way to the database: up to 1,000 in a batch, or what there is after 200 ms. A batch has an
// id, with which it is sent again after an error, so that it is counted once. Items that find the buffer full
// are dropped. An item has bytes(), what it takes of the buffer.
template <typename Item> class BatchQueue : public StatementQueue {
  public:
    // `things` is what the log calls them.
    BatchQueue(boost::asio::io_context& context, std::size_t max_bytes, RecordingCounters& counters,
               const char* things)
        : context_(context), max_bytes_(max_bytes), counters_(counters), things_(things) {}

    // From any thread.
    void add(Item item) {
        bool due;
        {
            const std::lock_guard lock(mutex_);
            if (bytes_ + item.bytes() > max_bytes_) {
                counters_.dropped++;
                return;
            }
            if (waiting_.empty())
                first_ = Clock::now();
            bytes_ += item.bytes();
            waiting_.push_back(std::move(item));
            due = waiting_.size() == 1 || waiting_.size() == max_batch;
            counters_.waiting++;
        }
        if (due)
            boost::asio::post(context_, [this] { wake(); });
    }

    // The rest is sent at once; `sent` is called when there is none, or no more hope.
    void drain(std::function<void()> sent) {
        {
            const std::lock_guard lock(mutex_);
            draining_ = true;
        }
        sent_ = std::move(sent);
        if (size() == 0)
            return sent_();
        wake();
    }
    // How many wait, or are under way.
    std::size_t size() const {
        const std::lock_guard lock(mutex_);
        return waiting_.size() + batch_.size();
    }

    Clock::time_point due() const override {
        if (!batch_.empty())
            return try_again_;
        const std::lock_guard lock(mutex_);
        if (waiting_.empty())
            return Clock::time_point::max();
        return std::max(try_again_, draining_ || waiting_.size() >= max_batch ? Clock::time_point::min()
                                                                              : first_ + interval);
    }

    Statement take() override {
        if (batch_.empty()) {
            batch_id_ = random_uuid();
            const std::lock_guard lock(mutex_);
            const auto end = waiting_.begin() + std::min(max_batch, waiting_.size());
            batch_.assign(std::make_move_iterator(waiting_.begin()), std::make_move_iterator(end));
            waiting_.erase(waiting_.begin(), end);
            first_ = Clock::now();
        }
        return statement(batch_id_, batch_);
    }

    bool answered(const PGresult*) override {
        counters_.recorded += batch_.size();
        counters_.batches++;
        batch_done();
        return true;
    }

    void failed(std::string_view sqlstate) override {
        if (is_hopeless(sqlstate)) {
            log_line(LogLevel::error, "dropped a batch of " + std::to_string(batch_.size()) + " " + things_ +
                                          " that the database refuses");
            counters_.dropped += batch_.size();
            return batch_done();
        }
        try_again_ = Clock::now() + pause_;
        pause_ = std::min<std::chrono::milliseconds>(pause_ * 2, longest_pause);
    }

    static constexpr std::size_t max_batch = 1000;
    static constexpr std::chrono::milliseconds interval{200};

  private:
    static constexpr std::chrono::seconds longest_pause{5};

    virtual Statement statement(const std::string& batch_id, const std::vector<Item>& batch) const = 0;

    void batch_done() {
        std::size_t bytes = 0;
        for (const Item& item : batch_)
            bytes += item.bytes();
        counters_.waiting -= batch_.size();
        batch_.clear();
        try_again_ = Clock::time_point::min();
        pause_ = interval;
        {
            const std::lock_guard lock(mutex_);
            bytes_ -= bytes;
        }
        if (sent_ && size() == 0)
            sent_();
    }

    boost::asio::io_context& context_;
    const std::size_t max_bytes_;
    RecordingCounters& counters_;
    const char* const things_;

    mutable std::mutex mutex_;
    std::deque<Item> waiting_;
    std::size_t bytes_ = 0;
    Clock::time_point first_; // when the first of them came
    bool draining_ = false;

    // Of the client's loop alone.
    std::vector<Item> batch_; // under way, or to be sent again
    std::string batch_id_;
    Clock::time_point try_again_ = Clock::time_point::min();
    std::chrono::milliseconds pause_{interval};
    std::function<void()> sent_;
};

} // namespace shortener
