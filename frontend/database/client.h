#pragma once

#include "awaitable.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "database/backoff.h"
#include "database/connection.h"
#include "database/statement_queue.h"
#include "metrics.h"

namespace shortener {

// Keeps one connection to the database and sends on it what its queues have, one statement at a time. A
// statement that takes too long is cancelled; the connection is kept as long as it lives, so that a database
// that is locked or slow has never more than this one to bear.
class DatabaseClient {
  public:
    struct Settings {
        ConnectionSettings connection;
        const char* purpose;                // after "cannot", in the log
        std::chrono::milliseconds patience; // with a statement, before it is cancelled
    };

    // The first queue has the probe. `changed` hears when statements begin to work (true) and when no longer.
    DatabaseClient(boost::asio::io_context& context, Settings settings, std::vector<StatementQueue*> queues,
                   Counters& counters, std::function<void(bool)> changed);

    // Connects, and connects again whenever the connection is lost, until the loop ends.
    void start();
    // Connects, or asks whether the connection is alive, without waiting until it is time.
    void hurry();

  private:
    boost::asio::awaitable<void> run();
    boost::asio::awaitable<std::string> connect();
    boost::asio::awaitable<std::string> probe();
    boost::asio::awaitable<void> serve();
    boost::asio::awaitable<bool> exchange(StatementQueue& queue);
    boost::asio::awaitable<Result> execute(const Statement& statement, std::string& error);
    boost::asio::awaitable<void> idle(Clock::time_point until);
    StatementQueue* next_due();
    void set_away(bool away);

    boost::asio::io_context& context_;
    const Settings settings_;
    const std::vector<StatementQueue*> queues_;
    Counters& counters_;
    const std::function<void(bool)> changed_;
    Connection connection_;
    Backoff backoff_;
    // Names of what is prepared on this connection. An empty one: cannot be.
    std::map<const char*, std::string> prepared_;
    std::size_t turn_ = 0; // of the queue that comes first
    std::string complaint_;
    Clock::time_point next_probe_;
    bool idle_ = false, away_ = false, connected_before_ = false;
};

} // namespace shortener
