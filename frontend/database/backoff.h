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

// Pauses between attempts: doubling up to two seconds, with a random part so that many frontends do not come
// at once.
class Backoff {
  public:
    explicit Backoff(boost::asio::io_context& context) : timer_(context) {}

    boost::asio::awaitable<void> wait() {
        std::uniform_int_distribution<int> spread(pause_ / 2, pause_);
        timer_.expires_after(std::chrono::milliseconds(spread(random_)));
        pause_ = std::min(pause_ * 2, 2000);
        boost::system::error_code ignored;
        co_await timer_.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, ignored));
    }
    void reset() noexcept { pause_ = 100; }
    // There is reason to think that the next attempt will succeed.
    void cut_short() {
        reset();
        timer_.cancel();
    }

  private:
    boost::asio::steady_timer timer_;
    int pause_ = 100; // milliseconds
    std::minstd_rand random_{std::random_device{}()};
};

} // namespace shortener
