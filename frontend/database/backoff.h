#pragma once

#include "awaitable.h"

#include <algorithm>
#include <chrono>
#include <random>

#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace shortener {

// Pauses between attempts to connect: doubling up to two seconds, with a random part so that many frontends
// do not come at once.
class Backoff {
  public:
    boost::asio::awaitable<void> wait(boost::asio::io_context& context) {
        std::uniform_int_distribution<int> spread(pause_ / 2, pause_);
        boost::asio::steady_timer timer(context, std::chrono::milliseconds(spread(random_)));
        pause_ = std::min(pause_ * 2, 2000);
        boost::system::error_code ignored;
        co_await timer.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, ignored));
    }
    void reset() noexcept { pause_ = 100; }

  private:
    int pause_ = 100; // milliseconds
    std::minstd_rand random_{std::random_device{}()};
};

} // namespace shortener
