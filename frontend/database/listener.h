#pragma once

#include "awaitable.h"

#include <boost/asio/io_context.hpp>

#include "cache/cache.h"
#include "cache/directory.h"
#include "database/connection.h"
#include "metrics.h"

namespace shortener {

// Listens for changed links and takes them out of the cache. While the connection is lost, entries live on
// for as long as they were allowed to; when it is back, everything is forgotten, because nobody knows what
// was missed.
class Listener {
  public:
    Listener(boost::asio::io_context& context, ConnectionSettings settings, Cache& cache,
             Directory& directory, Gauges& gauges);

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

} // namespace shortener
