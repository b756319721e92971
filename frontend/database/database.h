#pragma once

#include "awaitable.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>

#include <boost/asio/io_context.hpp>

#include "database/connection.h"
#include "metrics.h"
#include "resolution.h"

namespace shortener {

// What became of a question to the database.
struct Answer {
    bool known = false; // false: the database gave no answer
    Resolution resolution;
    std::chrono::seconds cache_seconds{0};
};

// One thread's way to the database. Questions that come while a query is under way travel together in the
// next. Every question is answered, at the latest a little after the time-out; without a connection at once.
class Database {
  public:
    using Resolved = std::function<void(const Answer&)>;
    using TextsRead = std::function<void(const PageTexts*)>; // null: no answer

    Database(boost::asio::io_context& context, const ConnectionSettings& settings,
             std::chrono::milliseconds timeout, Counters& counters, Gauges& gauges);

    // Connects, and connects again whenever the connection is lost, until the loop ends.
    void start();

    // `resolved` is not called before it returns.
    void resolve(std::string host, std::string code, Resolved resolved);
    void read_texts(std::int64_t workspace_id, TextsRead read);

    // Answers the questions that waited too long for a connection.
    void tick(Clock::time_point now);

    static constexpr std::size_t max_batch = 512;
    static constexpr std::size_t max_waiting = 65536;

  private:
    struct Question {
        std::string host, code;
        Resolved resolved;
        Clock::time_point deadline;
    };
    struct TextsQuestion {
        std::int64_t workspace_id;
        TextsRead read;
        Clock::time_point deadline;
    };

    boost::asio::awaitable<void> run();
    boost::asio::awaitable<void> prepare();
    boost::asio::awaitable<std::string> probe(std::chrono::milliseconds patience);
    boost::asio::awaitable<void> idle();
    boost::asio::awaitable<void> resolve_batch();
    boost::asio::awaitable<Result> resolve_query(const Parameters& parameters, Clock::time_point deadline,
                                                 std::string& error);
    boost::asio::awaitable<void> read_one_texts();
    void fail_waiting(Clock::time_point deadline);

    boost::asio::io_context& context_;
    Connection connection_;
    const std::chrono::milliseconds timeout_;
    Counters& counters_;
    Gauges& gauges_;
    std::deque<Question> questions_;
    std::deque<TextsQuestion> texts_;
    std::string prepared_; // the name of the prepared statement; empty: there is none
    bool idle_ = false;    // connected, with nothing to ask
    bool away_ = false;    // the last attempt to get a connection that answers failed
};

} // namespace shortener
