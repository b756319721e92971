#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "http/handler.h"
#include "http/limits.h"

namespace shortener {

struct TransportSettings {
    std::vector<boost::asio::ip::tcp::endpoint> listen;
    unsigned threads = 1;
    std::size_t max_connections = 10000;
    RequestLimits limits;
    std::chrono::milliseconds idle_timeout{60000}, request_timeout{10000}, write_timeout{10000};
};

// An HTTP/1 server: threads with an event loop and a handler each. There are two of it, transport_beast.cpp
// with session.h and request_parser.h, and transport_crow.cpp; the Makefile chooses.
class Transport {
  public:
    // Called on each thread before it serves.
    using MakeHandler =
        std::function<std::unique_ptr<Handler>(boost::asio::io_context& context, std::size_t thread)>;

    // Binds the addresses; throws boost::system::system_error if it cannot.
    Transport(const TransportSettings& settings, MakeHandler make_handler);
    ~Transport();

    // The addresses it is bound to, with real ports in place of 0.
    std::vector<boost::asio::ip::tcp::endpoint> endpoints() const;

    void start();
    // Stops accepting, lets requests under way finish for at most `patience`, and returns when nothing runs
    // any more.
    void stop(std::chrono::milliseconds patience);

  private:
    class Implementation;
    std::unique_ptr<Implementation> implementation_;
};

} // namespace shortener
