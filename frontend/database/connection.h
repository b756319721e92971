#pragma once

#include "awaitable.h"

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include <libpq-fe.h>

#include "clock.h"

namespace shortener {

struct ConnectionSettings {
    std::string conninfo;
    std::string default_workspace;            // empty: the database's own setting
    const char* session_attributes = nullptr; // default of target_session_attrs
};

struct ResultDeleter {
    void operator()(PGresult* result) const noexcept { PQclear(result); }
};
using Result = std::unique_ptr<PGresult, ResultDeleter>;

// A parameter of a query in text form; none is NULL.
using Parameters = std::vector<std::optional<std::string>>;

// One libpq connection on an event loop, used by one coroutine at a time.
//
// Connecting happens in a thread of its own: looking up names blocks, and only the blocking call gives each
// of several hosts its own time-out. Everything after that is non-blocking, each wait with a deadline.
class Connection {
  public:
    Connection(boost::asio::io_context& context, ConnectionSettings settings);
    ~Connection();

    // Closes what was open and connects. An empty answer is success, anything else says what went wrong.
    boost::asio::awaitable<std::string> connect();

    bool is_open() const noexcept { return connection_ != nullptr; }
    void close() noexcept;

    // Runs one statement. Null, and the connection closed, if it broke or the deadline passed; `error` says
    // why. Otherwise the result may still be an error of the statement.
    boost::asio::awaitable<Result> query(const char* sql, const Parameters& parameters,
                                         Clock::time_point deadline, std::string& error);
    // The same in two steps: the statement is planned when it has a name, and later runs under it.
    boost::asio::awaitable<Result> prepare(const std::string& name, const char* sql,
                                           Clock::time_point deadline, std::string& error);
    boost::asio::awaitable<Result> query_prepared(const std::string& name, const Parameters& parameters,
                                                  Clock::time_point deadline, std::string& error);

    // Waits until wake(), until something arrived from the server or until the deadline. False, and the
    // connection closed, if it broke.
    boost::asio::awaitable<bool> wait(Clock::time_point deadline);
    void wake();

    // The payload of the next notification that has arrived.
    std::optional<std::string> notification();

  private:
    struct Handoff;

    boost::asio::awaitable<Result> receive(int sent, Clock::time_point deadline, std::string& error);
    void watch(boost::asio::posix::stream_descriptor::wait_type type, bool& armed, bool& ready);

    boost::asio::io_context& context_;
    const ConnectionSettings settings_;
    PGconn* connection_ = nullptr;
    std::shared_ptr<Handoff> handoff_;
    // Alive as long as a handler is: handlers of a closed connection find another generation.
    std::shared_ptr<int> generation_ = std::make_shared<int>(0);
    std::optional<boost::asio::posix::stream_descriptor> socket_;
    boost::asio::steady_timer event_;
    bool readable_ = false, reading_ = false, writable_ = false, writing_ = false, woken_ = false;
};

} // namespace shortener
