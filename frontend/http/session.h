#pragma once

#include "awaitable.h"

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/ip/tcp.hpp>

#include "http/request_parser.h"
#include "http/transport.h"

namespace shortener {

// What the connections of a thread share.
struct SessionContext {
    const TransportSettings& settings;
    std::unique_ptr<Handler> handler;
    std::string date; // for the field of this name
};

// A connection: reads requests one after another, refuses what is malformed, too large or too slow, and
// writes the answers in order.
class Session {
  public:
    Session(boost::asio::ip::tcp::socket socket, const SessionContext& context);

    boost::asio::awaitable<void> run();
    void tick(Clock::time_point now);
    // No further request; a connection on which nothing is asked is closed.
    void drain();

    std::list<Session*>::iterator place; // in the worker's list

  private:
    enum class Waiting { nothing, idle, request, writing, lingering };

    boost::asio::awaitable<bool> serve_one();
    boost::asio::awaitable<bool> read_head(RequestParser::State& state);
    boost::asio::awaitable<bool> read_body();
    boost::asio::awaitable<bool> read_more();
    boost::asio::awaitable<bool> write();
    boost::asio::awaitable<bool> finish();
    boost::asio::awaitable<void> linger();
    boost::asio::awaitable<void> answer_later(PendingRequest& pending);
    void append(const Response& response);
    void refuse(int status);
    void wait_for(Waiting what, std::chrono::milliseconds time);
    std::string_view unread() const { return {buffer_.data() + begin_, end_ - begin_}; }
    void consume(std::size_t bytes);
    Handler& handler() const { return *context_.handler; }

    boost::asio::ip::tcp::socket socket_;
    const SessionContext& context_;
    std::string peer_;
    std::vector<char> buffer_;
    std::size_t begin_ = 0, end_ = 0;
    std::string output_;
    Head head_;
    std::optional<RequestParser> parser_; // of the present request
    Waiting waiting_ = Waiting::nothing;
    Clock::time_point deadline_ = Clock::time_point::max();
    Clock::time_point request_deadline_ = Clock::time_point::max();
    int turn_ = 0; // requests since this connection last waited
    bool timed_out_ = false, draining_ = false, keep_alive_ = true;
};

} // namespace shortener
