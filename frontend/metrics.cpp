#include "metrics.h"

#include <algorithm>
#include <string_view>

namespace shortener {

namespace {

template <typename Bounds> std::size_t bucket_of(const Bounds& bounds, std::uint64_t value) {
    return std::lower_bound(bounds.begin(), bounds.end(), value) - bounds.begin();
}

class Page {
  public:
    void declare(std::string_view name, std::string_view type, std::string_view help) {
        text_.append("# HELP shortenerd_").append(name).append(" ").append(help).append("\n");
        text_.append("# TYPE shortenerd_").append(name).append(" ").append(type).append("\n");
    }
    void sample(std::string_view name, std::string_view labels, const std::string& value) {
        text_.append("shortenerd_").append(name);
        if (!labels.empty())
            text_.append("{").append(labels).append("}");
        text_.append(" ").append(value).append("\n");
    }
    void sample(std::string_view name, std::string_view labels, std::uint64_t value) {
        sample(name, labels, std::to_string(value));
    }
    void single(std::string_view name, std::string_view type, std::string_view help, std::uint64_t value) {
        declare(name, type, help);
        sample(name, {}, value);
    }
    std::string take() { return std::move(text_); }

  private:
    std::string text_;
};

std::string seconds(std::uint64_t microseconds) {
    std::string digits = std::to_string(microseconds % 1000000);
    digits.insert(0, 6 - digits.size(), '0');
    return std::to_string(microseconds / 1000000) + "." + digits;
}

} // namespace

void Counters::count_request(int status, std::uint64_t microseconds) noexcept {
    add(requests[std::find(statuses.begin(), statuses.end(), status) - statuses.begin()]);
    add(latency[bucket_of(latency_bounds, microseconds)]);
    add(latency_microseconds, microseconds);
}

void Counters::count_batch(std::size_t codes) noexcept {
    add(round_trips);
    add(batches[bucket_of(batch_bounds, codes)]);
    add(batch_codes, codes);
}

std::string Metrics::text(const Cache::Sizes& sizes, int database_connections) const {
    const auto total = [&](auto&& pick) {
        std::uint64_t sum = 0;
        for (std::size_t i = 0; i < threads_; i++)
            sum += pick(counters_[i].counters).load(std::memory_order_relaxed);
        return sum;
    };
    const auto sum = [&](Counters::Counter Counters::*counter) {
        return total([=](const Counters& counters) -> const Counters::Counter& { return counters.*counter; });
    };
    Page page;

    page.declare("requests_total", "counter", "Answers by HTTP status.");
    for (std::size_t i = 0; i <= Counters::statuses.size(); i++) {
        const std::string status =
            i < Counters::statuses.size() ? std::to_string(Counters::statuses[i]) : "other";
        page.sample("requests_total", "status=\"" + status + "\"",
                    total([i](const Counters& c) -> const auto& { return c.requests[i]; }));
    }

    page.declare("request_duration_seconds", "histogram", "From a request read to its answer ready.");
    std::uint64_t cumulative = 0;
    for (std::size_t i = 0; i <= Counters::latency_bounds.size(); i++) {
        cumulative += total([i](const Counters& c) -> const auto& { return c.latency[i]; });
        const std::string bound =
            i < Counters::latency_bounds.size() ? seconds(Counters::latency_bounds[i]) : "+Inf";
        page.sample("request_duration_seconds_bucket", "le=\"" + bound + "\"", cumulative);
    }
    page.sample("request_duration_seconds_sum", {}, seconds(sum(&Counters::latency_microseconds)));
    page.sample("request_duration_seconds_count", {}, cumulative);

    const std::uint64_t begun = sum(&Counters::in_flight_begun), ended = sum(&Counters::in_flight_ended);
    page.single("requests_in_flight", "gauge", "Requests waiting for the database.",
                begun > ended ? begun - ended : 0);
    const std::uint64_t opened = sum(&Counters::connections_opened),
                        closed = sum(&Counters::connections_closed);
    page.single("connections_total", "counter", "Connections accepted.", opened);
    page.single("connections", "gauge", "Connections open.", opened > closed ? opened - closed : 0);
    page.single("connections_refused_total", "counter", "Connections closed at once, there being too many.",
                sum(&Counters::connections_refused));

    page.declare("cache_hits_total", "counter", "Answers from the cache by kind.");
    page.sample("cache_hits_total", "kind=\"redirect\"", sum(&Counters::hits_redirect));
    page.sample("cache_hits_total", "kind=\"gone\"", sum(&Counters::hits_gone));
    page.sample("cache_hits_total", "kind=\"unknown\"", sum(&Counters::hits_unknown));
    page.single("cache_misses_total", "counter", "Requests whose code was not in the cache.",
                sum(&Counters::misses));
    page.single("coalesced_total", "counter", "Misses that shared another's question to the database.",
                sum(&Counters::coalesced));
    page.declare("cache_entries", "gauge", "Codes in the cache: links, and codes known not to exist.");
    page.sample("cache_entries", "part=\"links\"", sizes.links.entries);
    page.sample("cache_entries", "part=\"unknown\"", sizes.unknown.entries);
    page.declare("cache_bytes", "gauge", "Memory of the cache.");
    page.sample("cache_bytes", "part=\"links\"", sizes.links.bytes);
    page.sample("cache_bytes", "part=\"unknown\"", sizes.unknown.bytes);

    page.single("database_round_trips_total", "counter", "Queries answered by the database.",
                sum(&Counters::round_trips));
    page.single("database_errors_total", "counter", "Queries that failed or took too long.",
                sum(&Counters::database_errors));
    page.single("database_reconnects_total", "counter", "Reconnections to the database.",
                sum(&Counters::reconnects));
    page.single("database_connections", "gauge", "Threads that have a database connection that answers.",
                static_cast<std::uint64_t>(database_connections));
    page.declare("batch_codes", "histogram", "Codes asked for in one round trip.");
    cumulative = 0;
    for (std::size_t i = 0; i <= Counters::batch_bounds.size(); i++) {
        cumulative += total([i](const Counters& c) -> const auto& { return c.batches[i]; });
        const std::string bound =
            i < Counters::batch_bounds.size() ? std::to_string(Counters::batch_bounds[i]) : "+Inf";
        page.sample("batch_codes_bucket", "le=\"" + bound + "\"", cumulative);
    }
    page.sample("batch_codes_sum", {}, sum(&Counters::batch_codes));
    page.sample("batch_codes_count", {}, cumulative);

    page.single("listening", "gauge", "1 while changes are being listened for.", shared.listening ? 1 : 0);
    page.single("notifications_total", "counter", "Notifications of changes received.", shared.notifications);
    page.single("cache_flushes_total", "counter", "Times the whole cache was emptied.", shared.flushes);
    page.single("listen_reconnects_total", "counter", "Reconnections of the listening connection.",
                shared.listen_reconnects);
    page.single("clicks_total", "counter", "Redirects served to GET.", sum(&Counters::clicks));
    page.single("clicks_waiting", "gauge", "Clicks that wait to be recorded.", shared.clicks.waiting);
    page.single("clicks_recorded_total", "counter", "Clicks that the database has recorded.",
                shared.clicks.recorded);
    page.single("clicks_dropped_total", "counter", "Clicks dropped, there being too many or refused.",
                shared.clicks.dropped);
    page.single("click_batches_total", "counter", "Batches of clicks recorded.", shared.clicks.batches);
    page.single("unknown_visits_waiting", "gauge", "Visits of unknown codes that wait to be recorded.",
                shared.unknown_visits.waiting);
    page.single("unknown_visits_recorded_total", "counter",
                "Visits of unknown codes that the database has recorded.", shared.unknown_visits.recorded);
    page.single("unknown_visits_dropped_total", "counter",
                "Visits of unknown codes dropped, there being too many or refused.",
                shared.unknown_visits.dropped);
    return page.take();
}

} // namespace shortener
