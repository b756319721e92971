#pragma once

#include "awaitable.h"

#include <boost/asio/io_context.hpp>

#include "cache/cache.h"
#include "cache/workspace_cache.h"
#include "database/connection.h"
#include "database/status.h"
#include "metrics.h"

namespace shortener {

// Listens for changed links and takes them out of the cache. While the connection is lost, entries live on
// for as long as they were allowed to. When it is back, nobody knows what was missed, and everything is
// forgotten as soon as codes can be resolved again.
class Listener {
  public:
    Listener(boost::asio::io_context& context, ConnectionSettings settings, Cache& cache,
             WorkspaceCache& workspaces, DatabaseStatus& status, SharedCounters& counters);

    void start();

  private:
    boost::asio::awaitable<void> run();
    boost::asio::awaitable<std::string> begin();
    boost::asio::awaitable<void> listen();
    bool may_flush(Clock::time_point now) const;
    void apply(std::string_view payload);
    void flush();

    boost::asio::io_context& context_;
    Connection connection_;
    Cache& cache_;
    WorkspaceCache& workspaces_;
    DatabaseStatus& status_;
    SharedCounters& counters_;
    Clock::time_point begun_; // listening
};

} // namespace shortener
