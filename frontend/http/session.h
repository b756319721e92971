#pragma once

#include "awaitable.h"

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/ip/tcp.hpp>

#include "http/transport.h"

namespace shortener {

class Session;

// What the HTTP library does on a connection: it reads each request a second time, after the strict
// read_head, and turns the answer into bytes. There are two of it, in transport_beast.cpp and
// transport_crow.cpp; the Makefile chooses.
class Protocol {
  public:
    enum class Outcome { answered, later, refused };

    virtual ~Protocol() = default;

    // A request with this head has come to its end, and these are the bytes of the head. Appends the answer
    // to `out` if the handler knows it at once; refuses if the library does not take this for a request.
    virtual Outcome answer(std::string_view bytes, const Head& head, std::string& out) = 0;
    // After `later`: appends the answer to `out` and calls `done` once, not before it returns.
    virtual void answer_later(const Head& head, std::string& out, std::function<void()> done) = 0;
};

std::unique_ptr<Protocol> make_protocol(Session& session);

// What the connections of a thread share.
struct Common {
    const TransportSettings& settings;
    std::unique_ptr<Handler> handler;
    std::string date; // for the field of this name
};

// A connection: reads requests one after another, refuses what is malformed, too large or too slow, and
// writes the answers in order.
class Session {
  public:
    Session(boost::asio::ip::tcp::socket socket, const Common& common);

    boost::asio::awaitable<void> run();
    void tick(Clock::time_point now);
    // No further request; a connection on which nothing is asked is closed.
    void drain();

    // For the protocol: how to frame the answer to the present request. It decides about the connection.
    Framing frame(const Response& response);
    Handler& handler() const { return *common_.handler; }

    std::list<Session*>::iterator place; // in the worker's list

  private:
    enum class Waiting { nothing, idle, request, writing, lingering };

    boost::asio::awaitable<bool> serve_one();
    boost::asio::awaitable<bool> read_body();
    boost::asio::awaitable<bool> read_more();
    boost::asio::awaitable<bool> write();
    boost::asio::awaitable<bool> finish();
    boost::asio::awaitable<void> linger();
    boost::asio::awaitable<void> answer_later();
    void refuse(int status);
    void wait_for(Waiting what, std::chrono::milliseconds time);
    std::string_view unread() const { return {buffer_.data() + begin_, end_ - begin_}; }
    void consume(std::size_t bytes);

    boost::asio::ip::tcp::socket socket_;
    const Common& common_;
    std::string peer_;
    std::vector<char> buffer_;
    std::size_t begin_ = 0, end_ = 0;
    std::string output_;
    Head head_;
    Waiting waiting_ = Waiting::nothing;
    Clock::time_point deadline_ = Clock::time_point::max();
    Clock::time_point request_deadline_ = Clock::time_point::max();
    bool timed_out_ = false, draining_ = false, keep_alive_ = true;
    std::unique_ptr<Protocol> protocol_;
};

} // namespace shortener
