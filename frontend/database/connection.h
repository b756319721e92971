#pragma once

#include "awaitable.h"

#include <chrono>
#include <cstddef>
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
    const char* session_attributes = nullptr; // target_session_attrs, instead of what conninfo says
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
// of several hosts its own time-out; so does cancelling, for which libpq has only a blocking call before
// version 17. Everything else is non-blocking, each wait with a deadline.
class Connection {
  public:
    Connection(boost::asio::io_context& context, ConnectionSettings settings);
    ~Connection();

    // Closes what was open and connects. An empty answer is success, anything else says what went wrong.
    boost::asio::awaitable<std::string> connect();

    bool is_open() const noexcept { return connection_ != nullptr; }
    void close() noexcept;

    // Runs one statement. After `patience` it is cancelled on the server, which then answers with an error; a
    // server that does not answer that either is given up at last. Null, and the connection closed, if it
    // broke or was given up; `error` says why. Otherwise the result may be an error of the statement.
    boost::asio::awaitable<Result> query(const char* sql, const Parameters& parameters,
                                         std::chrono::milliseconds patience, std::string& error);
    // The same in two steps: the statement is planned when it has a name, and later runs under it.
    boost::asio::awaitable<Result> prepare(const std::string& name, const char* sql,
                                           std::chrono::milliseconds patience, std::string& error);
    boost::asio::awaitable<Result> query_prepared(const std::string& name, const Parameters& parameters,
                                                  std::chrono::milliseconds patience, std::string& error);
    // Whether the server answers in time; the connection is closed if not.
    boost::asio::awaitable<bool> answers(std::chrono::milliseconds patience);

    // Waits a little for requests to cancel that are still on their way; before the program ends.
    static void finish_cancelling();

    // Waits until wake(), until something arrived from the server or until the deadline. False, and the
    // connection closed, if it broke.
    boost::asio::awaitable<bool> wait(Clock::time_point deadline);
    void wake();

    // The payload of the next notification that has arrived.
    std::optional<std::string> notification();

  private:
    struct Handoff;

    enum class Late { cancel, close }; // what to do about a statement that takes too long

    boost::asio::awaitable<Result> receive(int sent, std::chrono::milliseconds patience, Late late,
                                           std::string& error);
    boost::asio::awaitable<bool> wait_for_result(Clock::time_point& deadline, Late& late, std::string& error);
    void cancel() noexcept;
    void watch(boost::asio::posix::stream_descriptor::wait_type type, bool& armed, bool& ready);

    boost::asio::io_context& context_;
    const ConnectionSettings settings_;
    PGconn* connection_ = nullptr;
    std::shared_ptr<Handoff> handoff_;
    // Alive as long as a handler is: handlers of a closed connection find another generation.
    std::shared_ptr<int> generation_ = std::make_shared<int>(0);
    std::optional<boost::asio::posix::stream_descriptor> socket_;
    boost::asio::steady_timer event_;
    // For an answer to a cancelled statement. A backend that does not answer may live on after its connection
    // is given up, and so may its successor: longer each time.
    std::chrono::seconds last_patience_;
    bool busy_ = false; // a statement is under way
    bool readable_ = false, reading_ = false, writable_ = false, writing_ = false, woken_ = false;
};

} // namespace shortener
