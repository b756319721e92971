#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "click.h"
#include "database/batch_queue.h"
#include "metrics.h"

namespace shortener {

struct WaitingClick {
    std::int64_t link_id, workspace_id;
    std::chrono::system_clock::time_point time;
    std::string visitor, user_agent, referer;

    std::size_t bytes() const { return sizeof *this + visitor.size() + user_agent.size() + referer.size(); }
};

class ClickQueue final : public BatchQueue<WaitingClick> {
  public:
    using BatchQueue::BatchQueue;

    Statement probe() const override;
    std::string judge(const PGresult* result) override;

  private:
    Statement statement(const std::string& batch_id, const std::vector<WaitingClick>& batch) const override;
};

struct UnknownVisit {
    std::string host, code;

    std::size_t bytes() const { return sizeof *this + host.size() + code.size(); }
};

class UnknownVisitQueue final : public BatchQueue<UnknownVisit> {
  public:
    using BatchQueue::BatchQueue;

  private:
    Statement statement(const std::string& batch_id, const std::vector<UnknownVisit>& batch) const override;
};

// Sends clicks and visits of unknown codes. The latter have a small buffer of their own, an eighth of the
// whole: whoever guesses codes pushes no click out.
class ClickSender final : public ClickSink {
  public:
    ClickSender(boost::asio::io_context& context, std::size_t max_bytes, SharedCounters& counters)
        : clicks_(context, max_bytes - max_bytes / 8, counters.clicks, "clicks"),
          unknown_visits_(context, max_bytes / 8, counters.unknown_visits, "visits of unknown codes") {}

    void clicked(const Click& click) override;
    void missed(std::string_view host, std::string_view code) override;

    std::vector<StatementQueue*> queues() { return {&clicks_, &unknown_visits_}; }
    // Sends the rest at once; `sent` is called when there is none, or no more hope.
    void drain(const std::function<void()>& sent);
    std::size_t clicks() const { return clicks_.size(); }
    std::size_t unknown_visits() const { return unknown_visits_.size(); }

  private:
    ClickQueue clicks_;
    UnknownVisitQueue unknown_visits_;
};

} // namespace shortener
