#include "metrics.h"

#include <algorithm>
#include <string_view>

namespace shortener {

namespace {

template <typename Bounds> std::size_t bucket_of(const Bounds& bounds, std::uint64_t value) {
    return std::lower_bound(bounds.begin(), bounds.end(), value) - bounds.begin();
}

std::string seconds(std::uint64_t microseconds) {
    std::string digits = std::to_string(microseconds % 1000000);
    digits.insert(0, 6 - digits.size(), '0');
    return std::to_string(microseconds / 1000000) + "." + digits;
}

// What a scrape reads.
struct Scrape {
    const Metrics& metrics;
    const SharedCounters& shared;
    const Cache::Sizes& sizes;
    int database_connections;

    std::uint64_t operator()(Counters::Counter Counters::*counter) const {
        return metrics.total([=](const Counters& counters) -> const auto& { return counters.*counter; });
    }
    template <std::size_t size>
    std::uint64_t operator()(std::array<Counters::Counter, size> Counters::*counter,
                             std::size_t place) const {
        return metrics.total([=](const Counters& counters) -> const auto& {
            return (counters.*counter)[place];
        });
    }
};

// The samples of one metric.
class Samples {
  public:
    Samples(std::string& text, std::string_view name) : text_(text), name_(name) {}

    void add(std::string_view suffix, std::string_view labels, std::string_view value) {
        text_.append("shortenerd_").append(name_).append(suffix);
        if (!labels.empty())
            text_.append("{").append(labels).append("}");
        text_.append(" ").append(value).append("\n");
    }
    void add(std::string_view labels, std::uint64_t value) { add({}, labels, std::to_string(value)); }
    void add(std::uint64_t value) { add({}, value); }

  private:
    std::string& text_;
    const std::string_view name_;
};

struct Metric {
    std::string_view name, type, help;
    void (*write)(const Scrape&, Samples&);
};

template <auto counter> void sum(const Scrape& scrape, Samples& samples) {
    samples.add(scrape(counter));
}

// What began and has not ended; the two are not read at one moment.
template <auto begun, auto ended> void present(const Scrape& scrape, Samples& samples) {
    const std::uint64_t more = scrape(begun), less = scrape(ended);
    samples.add(more > less ? more - less : 0);
}

template <auto counter> void shared(const Scrape& scrape, Samples& samples) {
    samples.add(scrape.shared.*counter);
}

template <auto recording, auto counter> void recorded(const Scrape& scrape, Samples& samples) {
    samples.add(scrape.shared.*recording.*counter);
}

void requests(const Scrape& scrape, Samples& samples) {
    for (std::size_t i = 0; i <= Counters::statuses.size(); i++) {
        const std::string status =
            i < Counters::statuses.size() ? std::to_string(Counters::statuses[i]) : "other";
        samples.add("status=\"" + status + "\"", scrape(&Counters::requests, i));
    }
}

template <auto buckets, auto amount, const auto& bounds, std::string (*in_unit)(std::uint64_t)>
void histogram(const Scrape& scrape, Samples& samples) {
    std::uint64_t cumulative = 0;
    for (std::size_t i = 0; i <= bounds.size(); i++) {
        cumulative += scrape(buckets, i);
        const std::string bound = i < bounds.size() ? in_unit(bounds[i]) : "+Inf";
        samples.add("_bucket", "le=\"" + bound + "\"", std::to_string(cumulative));
    }
    samples.add("_sum", {}, in_unit(scrape(amount)));
    samples.add("_count", {}, std::to_string(cumulative));
}

void cache_hits(const Scrape& scrape, Samples& samples) {
    samples.add("kind=\"redirect\"", scrape(&Counters::hits_redirect));
    samples.add("kind=\"gone\"", scrape(&Counters::hits_gone));
    samples.add("kind=\"unknown\"", scrape(&Counters::hits_unknown));
}

template <auto size> void cache_parts(const Scrape& scrape, Samples& samples) {
    samples.add("part=\"links\"", scrape.sizes.links.*size);
    samples.add("part=\"unknown\"", scrape.sizes.unknown.*size);
}

void database_connections(const Scrape& scrape, Samples& samples) {
    samples.add(static_cast<std::uint64_t>(scrape.database_connections));
}

using C = Counters;
using S = SharedCounters;
using R = RecordingCounters;

constexpr Metric metrics[] = {
    {"requests_total", "counter", "Answers by HTTP status.", requests},
    {"request_duration_seconds", "histogram", "Time from a request read to its answer ready.",
     histogram<&C::latency, &C::latency_microseconds, C::latency_bounds, seconds>},
    {"requests_in_flight", "gauge", "Requests waiting for the database.",
     present<&C::in_flight_begun, &C::in_flight_ended>},
    {"connections_total", "counter", "Connections accepted.", sum<&C::connections_opened>},
    {"connections", "gauge", "Connections open.", present<&C::connections_opened, &C::connections_closed>},
    {"connections_refused_total", "counter", "Connections closed at once because there were too many.",
     sum<&C::connections_refused>},
    {"cache_hits_total", "counter", "Answers from the cache by kind.", cache_hits},
    {"cache_misses_total", "counter", "Requests whose code was not in the cache.", sum<&C::misses>},
    {"coalesced_total", "counter", "Misses that shared the question of another request to the database.",
     sum<&C::coalesced>},
    {"cache_entries", "gauge", "Codes in the cache: links, and codes known not to exist.",
     cache_parts<&Cache::Size::entries>},
    {"cache_bytes", "gauge", "Memory of the cache.", cache_parts<&Cache::Size::bytes>},
    {"database_round_trips_total", "counter", "Queries answered by the database.", sum<&C::round_trips>},
    {"database_errors_total", "counter", "Queries that failed or took too long.", sum<&C::database_errors>},
    {"database_reconnects_total", "counter", "Reconnections to the database.", sum<&C::reconnects>},
    {"database_connections", "gauge", "Threads with a working connection to the database.",
     database_connections},
    {"batch_codes", "histogram", "Codes asked for in one round trip.",
     histogram<&C::batches, &C::batch_codes, C::batch_bounds, std::to_string>},
    {"listening", "gauge", "1 while LISTEN is active, else 0.", shared<&S::listening>},
    {"notifications_total", "counter", "Notifications of changes received.", shared<&S::notifications>},
    {"cache_flushes_total", "counter", "How many times the whole cache was emptied.", shared<&S::flushes>},
    {"listen_reconnects_total", "counter", "Reconnections of the listening connection.",
     shared<&S::listen_reconnects>},
    {"clicks_total", "counter", "Redirects served to GET.", sum<&C::clicks>},
    {"clicks_waiting", "gauge", "Clicks that wait to be recorded.", recorded<&S::clicks, &R::waiting>},
    {"clicks_recorded_total", "counter", "Clicks that the database has recorded.",
     recorded<&S::clicks, &R::recorded>},
    {"clicks_dropped_total", "counter",
     "Clicks dropped because there were too many or the database refused them.",
     recorded<&S::clicks, &R::dropped>},
    {"click_batches_total", "counter", "Batches of clicks recorded.", recorded<&S::clicks, &R::batches>},
    {"unknown_visits_waiting", "gauge", "Visits of unknown codes that wait to be recorded.",
     recorded<&S::unknown_visits, &R::waiting>},
    {"unknown_visits_recorded_total", "counter", "Visits of unknown codes that the database has recorded.",
     recorded<&S::unknown_visits, &R::recorded>},
    {"unknown_visits_dropped_total", "counter",
     "Visits of unknown codes dropped because there were too many or the database refused them.",
     recorded<&S::unknown_visits, &R::dropped>},
};

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
    const Scrape scrape{*this, shared, sizes, database_connections};
    std::string text;
    for (const Metric& metric : metrics) {
        text.append("# HELP shortenerd_").append(metric.name).append(" ").append(metric.help).append("\n");
        text.append("# TYPE shortenerd_").append(metric.name).append(" ").append(metric.type).append("\n");
        Samples samples(text, metric.name);
        metric.write(scrape, samples);
    }
    return text;
}

} // namespace shortener
