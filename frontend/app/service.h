#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "app/clicks.h"
#include "app/client.h"
#include "cache/cache.h"
#include "cache/directory.h"
#include "cache/flights.h"
#include "database/database.h"
#include "http/handler.h"
#include "metrics.h"

namespace shortener {

class Service;

// Somebody who waits for the answer about a code, on the loop of `home`.
struct Waiter {
    Service* home = nullptr;
    Database::Resolved told;
};

// What all threads share.
struct Shared {
    Shared(const Cache::Limits& limits, const SipKey& seed, std::size_t threads,
           std::vector<Network> trusted_proxies)
        : trusted_proxies(std::move(trusted_proxies)), cache(limits, seed), directory(seed, limits.hold_off),
          flights(seed), metrics(threads) {}

    const std::vector<Network> trusted_proxies;

    Cache cache;
    Directory directory;
    Flights<Waiter> flights;
    Metrics metrics;
    ClickSink* clicks = nullptr; // null: nobody wants to know
};

// Serves links on one event loop: from the cache, or else by asking the database.
class Service final : public Handler {
  public:
    Service(boost::asio::io_context& context, Shared& shared, std::size_t thread,
            const ConnectionSettings& settings, std::chrono::milliseconds database_timeout);

    bool answer(const Request& request, Response& response) override;
    void answer_later(const Request& request, Done done) override;
    void tick(Clock::time_point now) override { database_.tick(now); }
    void refused(int status) override { counters_.count_request(status, 0); }
    void opened() override { Counters::add(counters_.connections_opened); }
    void closed() override { Counters::add(counters_.connections_closed); }
    void turned_away() override { Counters::add(counters_.connections_refused); }

  private:
    struct Visit;

    bool answer_link(const Request& request, std::string_view code, Clock::time_point now,
                     Response& response);
    void ask(const std::shared_ptr<Visit>& visit);
    void landed(const Visit& visit, const Answer& answer);
    void resolved(const std::shared_ptr<Visit>& visit, const Answer& answer);
    void finish(const std::shared_ptr<Visit>& visit, const Resolution& resolution, const PageTexts* texts);
    void count(const Response& response, Clock::time_point begun);
    void announce(const Request& request, const Resolution& resolution, const Response& response);

    boost::asio::io_context& context_;
    Shared& shared_;
    Counters& counters_;
    Database database_;
    Resolution scratch_; // of a look-up, reused for its storage
};

// Serves /healthz, /readyz and /metrics.
class AdminService final : public Handler {
  public:
    explicit AdminService(const Shared& shared) : shared_(shared) {}

    bool answer(const Request& request, Response& response) override;
    void answer_later(const Request&, Done) override {}
    void tick(Clock::time_point) override {}
    void refused(int) override {}
    void opened() override {}
    void closed() override {}
    void turned_away() override {}

  private:
    const Shared& shared_;
};

} // namespace shortener
