#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "app/clicks.h"
#include "database/statement_queue.h"
#include "metrics.h"

namespace shortener {

// Clicks on their way to the database: up to 1,000 in a batch, or what there is after 200 ms. A batch has an id, with
// which it is sent again after an error, so that it is counted once. Clicks that find the buffer full are dropped.
class ClickQueue final : public ClickSink, public StatementQueue {
  public:
    ClickQueue(boost::asio::io_context& context, std::size_t max_bytes, SharedCounters& counters)
        : context_(context), max_bytes_(max_bytes), counters_(counters) {}

    // From any thread.
    void clicked(const Click& click) override;

    // The rest is sent at once; `sent` is called when there is none, or no more hope.
    void drain(std::function<void()> sent);
    // How many clicks wait.
    std::size_t size() const;

    Clock::time_point due() const override;
    Statement take() override;
    bool answered(const PGresult* result) override;
    void failed(std::string_view sqlstate) override;
    Statement probe() const override;
    std::string judge(const PGresult* result) override;

    static constexpr std::size_t max_batch = 1000;
    static constexpr std::chrono::milliseconds interval{200};

  private:
    struct Waiting {
        std::int64_t link_id, workspace_id;
        std::chrono::system_clock::time_point time;
        std::string visitor, user_agent, referer;

        std::size_t bytes() const;
    };

    void batch_done();

    boost::asio::io_context& context_;
    const std::size_t max_bytes_;
    SharedCounters& counters_;

    mutable std::mutex mutex_;
    std::deque<Waiting> waiting_;
    std::size_t bytes_ = 0;
    Clock::time_point first_; // when the first of them came
    bool draining_ = false;

    // Of the client's loop alone.
    std::vector<Waiting> batch_; // under way, or to be sent again
    std::string batch_id_;
    Clock::time_point try_again_ = Clock::time_point::min();
    std::chrono::milliseconds pause_{interval};
    std::function<void()> sent_;
};

} // namespace shortener
