#pragma once

#include "awaitable.h"

#include <boost/asio/io_context.hpp>

#include "cache.h"
#include "connection.h"
#include "directory.h"
#include "metrics.h"

namespace shortener {

// Listens for changed links and takes them out of the cache. While the connection is lost, entries live on for
// as long as they were allowed to; when it is back, everything is forgotten, because nobody knows what was missed.
class Listener {
  public:
    Listener(boost::asio::io_context& context, ConnectionSettings settings, Cache& cache, Directory& directory,
             Gauges& gauges);

    void start();

  private:
    boost::asio::awaitable<void> run();
    boost::asio::awaitable<bool> begin(std::string& error);
    boost::asio::awaitable<void> listen();
    void apply(std::string_view payload);
    void flush();

    boost::asio::io_context& context_;
    Connection connection_;
    Cache& cache_;
    Directory& directory_;
    Gauges& gauges_;
};

// Calls `tag(value)` for every tag in the payload of a notification, or `flush()` if it says so or is not
// understood: forgetting too much is harmless.
template <typename Tag, typename Flush> void read_notification(std::string_view payload, Tag&& tag, Flush&& flush) {
    while (!payload.empty()) {
        std::uint64_t value = 0;
        std::size_t length = 0;
        for (; length < payload.size() && payload[length] != ' '; length++) {
            const char c = payload[length];
            const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
            if (digit < 0 || length >= 16)
                return flush();
            value = value << 4 | static_cast<unsigned>(digit);
        }
        if (length != 16)
            return flush();
        tag(value);
        payload.remove_prefix(length == payload.size() ? length : length + 1);
    }
}

} // namespace shortener
