#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "app/router.h"
#include "app/visit.h"
#include "app/visitor_address.h"
#include "cache/cache.h"
#include "cache/flights.h"
#include "cache/workspace_cache.h"
#include "click.h"
#include "database/client.h"
#include "database/codes.h"
#include "database/page_texts.h"
#include "database/status.h"
#include "http/handler.h"
#include "metrics.h"

namespace shortener {

// What all threads share.
struct Shared {
    Shared(const Cache::Limits& limits, const SipKey& seed, std::size_t threads)
        : cache(limits, seed), workspaces(seed), flights(seed), database(static_cast<int>(threads)),
          metrics(threads + 1) {}

    Cache cache;
    WorkspaceCache workspaces;
    Flights<Visit> flights;
    DatabaseStatus database;
    Metrics metrics;
    ClickSink* clicks = nullptr; // null: nobody wants to know
};

struct ServiceSettings {
    ConnectionSettings database;
    std::chrono::milliseconds database_timeout;
    // After a change nothing of it is kept for so long of what a standby says.
    std::chrono::milliseconds standby_delay;
    bool always_standby; // the database may lag even if it does not say so
    std::vector<Network> trusted_proxies;
};

// Serves links on one event loop: from the cache, or else by asking the database.
class Service final : public Handler {
  public:
    Service(boost::asio::io_context& context, Shared& shared, std::size_t thread,
            const ServiceSettings& settings);

    std::shared_ptr<PendingRequest> answer(const Request& request, Response& response) override;
    void tick(Clock::time_point now) override;
    void request_refused(int status) override { counters_.count_request(status, 0); }
    void connection_opened() override { Counters::add(counters_.connections_opened); }
    void connection_closed() override { Counters::add(counters_.connections_closed); }
    void connection_refused() override { Counters::add(counters_.connections_refused); }

    void start(const std::shared_ptr<Visit>& visit);
    // What visits hear of the database.
    void keep(const Visit& visit, const CodeAnswer& answer);
    void landed(const Visit& visit, const CodeAnswer* answer);
    void keep(const Visit& visit, const TextsAnswer& answer);
    void finish(Visit& visit, const PageTexts* texts);

  private:
    std::shared_ptr<Visit> answer_link(const Request& request, std::string_view code, Clock::time_point now,
                                       Response& response);
    void resolved(const std::shared_ptr<Visit>& visit);
    void end(Visit& visit, Response response);
    Asked asked(const Visit& visit, Ticket ticket, bool from_standby) const;
    void announce(const Request& request, std::string_view code, const Resolution& resolution,
                  const Response& response);

    boost::asio::io_context& context_;
    Shared& shared_;
    const ServiceSettings& settings_;
    Counters& counters_;
    CodeQueue codes_;
    TextsQueue texts_;
    DatabaseClient database_;
    std::uint64_t returned_ = 0; // of the status, as last seen
    Resolution scratch_;         // of a look-up, reused for its storage
};

// Serves /healthz, /readyz and /metrics. Its own requests and connections are not counted.
class AdminService final : public Handler {
  public:
    explicit AdminService(const Shared& shared) : shared_(shared) {}

    std::shared_ptr<PendingRequest> answer(const Request& request, Response& response) override;
    void tick(Clock::time_point) override {}
    void request_refused(int) override {}
    void connection_opened() override {}
    void connection_closed() override {}
    void connection_refused() override {}

  private:
    const Shared& shared_;
};

} // namespace shortener
