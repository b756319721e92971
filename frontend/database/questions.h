#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include "database/statement_queue.h"
#include "metrics.h"

namespace shortener {

template <typename Answer> class QuestionQueue;

// What a visitor waits for.
template <typename Answer> class Question {
  public:
    virtual ~Question() = default;
    // The answer, whenever it comes: also when nobody waits any more.
    virtual void keep(const Answer& answer) = 0;
    // Once: the answer, or null if there was none in time.
    virtual void tell(const Answer* answer) = 0;

  private:
    friend QuestionQueue<Answer>;
    Clock::time_point deadline_;
    bool told_ = false, tried_ = false;
};

// Questions that are answered by a row each, up to 512 by one statement. The time-out is the visitor's, not
// the statement's: an answer that comes later is kept for the next visitor.
template <typename Answer> class QuestionQueue : public StatementQueue {
  public:
    using Asked = std::shared_ptr<Question<Answer>>;

    QuestionQueue(boost::asio::io_context& context, std::chrono::milliseconds timeout, Counters& counters)
        : counters_(counters), context_(context), timeout_(timeout) {}

    // Nothing is told before it returns.
    void ask(Asked question) {
        if (away_ || waiting_.size() >= max_waiting)
            return boost::asio::post(context_, [question] { question->tell(nullptr); });
        question->deadline_ = Clock::now() + timeout_;
        waiting_.push_back(std::move(question));
        wake();
    }

    // Tells those whose time is over.
    void expire(Clock::time_point now) {
        while (!waiting_.empty() && waiting_.front()->deadline_ <= now)
            give_up(take_first());
        for (const Asked& question : under_way_)
            if (!question->told_ && question->deadline_ <= now)
                give_up(question);
    }

    Clock::time_point due() const override {
        return waiting_.empty() ? Clock::time_point::max() : Clock::time_point::min();
    }

    Statement take() override {
        while (!waiting_.empty() && under_way_.size() < max_batch)
            under_way_.push_back(take_first());
        return statement(under_way_);
    }

    bool answered(const PGresult* result) override {
        if (PQntuples(result) != static_cast<int>(under_way_.size()))
            return false;
        counters_.count_batch(under_way_.size());
        const std::vector<Asked> batch = std::exchange(under_way_, {});
        const Clock::time_point now = Clock::now();
        for (std::size_t i = 0; i < batch.size(); i++) {
            const std::optional<Answer> answer = read(result, static_cast<int>(i), now);
            if (answer)
                batch[i]->keep(*answer);
            if (!batch[i]->told_)
                tell(*batch[i], answer ? &*answer : nullptr);
        }
        return true;
    }

    // A lost connection or a cancelled statement says nothing about these questions; but one of them may be
    // the reason.
    void failed(std::string_view) override {
        Counters::add(counters_.database_errors);
        std::vector<Asked> batch = std::exchange(under_way_, {});
        for (auto question = batch.rbegin(); question != batch.rend(); ++question) {
            if ((*question)->told_)
                continue;
            if (std::exchange((*question)->tried_, true))
                tell(**question, nullptr);
            else
                waiting_.push_front(std::move(*question));
        }
    }

    void set_away(bool away) override {
        away_ = away;
        while (away_ && !waiting_.empty())
            give_up(take_first());
    }

    static constexpr std::size_t max_batch = 512;
    static constexpr std::size_t max_waiting = 65536;

  protected:
    virtual Statement statement(const std::vector<Asked>& batch) const = 0;
    // The answer in a row, if it is one.
    virtual std::optional<Answer> read(const PGresult* result, int row, Clock::time_point now) = 0;

    Counters& counters_;

  private:
    Asked take_first() {
        Asked first = std::move(waiting_.front());
        waiting_.pop_front();
        return first;
    }
    void tell(Question<Answer>& question, const Answer* answer) {
        question.told_ = true;
        question.tell(answer);
    }
    void give_up(const Asked& question) {
        Counters::add(counters_.database_errors);
        tell(*question, nullptr);
    }

    boost::asio::io_context& context_;
    const std::chrono::milliseconds timeout_;
    std::deque<Asked> waiting_; // in the order of their deadlines
    std::vector<Asked> under_way_;
    bool away_ = false;
};

} // namespace shortener
