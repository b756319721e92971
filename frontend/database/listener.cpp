#include "database/listener.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <boost/asio/co_spawn.hpp>

#include "core/notification.h"
#include "database/backoff.h"
#include "database/result.h"
#include "log.h"

namespace shortener {

namespace {

namespace asio = boost::asio;

constexpr std::chrono::seconds patience{5};
// A connection that died without a word is noticed by asking.
constexpr std::chrono::seconds heartbeat{1}, heartbeat_patience{3};
// Threads that can resolve codes wait for so long for those that cannot, before everything is forgotten.
constexpr std::chrono::seconds flush_patience{5};
constexpr std::chrono::milliseconds flush_interval{20};

std::optional<SipKey> read_key(const PGresult* result) {
    if (PQresultStatus(result) != PGRES_TUPLES_OK || PQntuples(result) != 1)
        return std::nullopt;
    std::size_t length = 0;
    unsigned char* bytes =
        PQunescapeBytea(reinterpret_cast<const unsigned char*>(PQgetvalue(result, 0, 0)), &length);
    unsigned char key[16] = {};
    const bool good = bytes && length == sizeof key;
    if (good)
        std::memcpy(key, bytes, sizeof key);
    PQfreemem(bytes);
    return good ? std::optional(SipKey::from_bytes(key)) : std::nullopt;
}

} // namespace

Listener::Listener(asio::io_context& context, ConnectionSettings settings, Cache& cache,
                   WorkspaceCache& workspaces, DatabaseStatus& status, SharedCounters& counters)
    : context_(context), connection_(context, std::move(settings)), cache_(cache), workspaces_(workspaces),
      status_(status), counters_(counters) {}

void Listener::start() {
    asio::co_spawn(context_, run(), end_program);
}

void Listener::flush() {
    const Clock::time_point now = Clock::now();
    cache_.flush(now);
    workspaces_.flush(now);
    counters_.flushes++;
}

void Listener::apply(std::string_view payload) {
    counters_.notifications++;
    const Clock::time_point now = Clock::now();
    read_notification(
        payload, [&](std::uint64_t tag) { cache_.invalidate(tag, now); }, [&] { flush(); });
}

// LISTEN first: a change from here on is notified.
asio::awaitable<std::string> Listener::begin() {
    std::string error = co_await connection_.connect();
    if (error.find("hot standby") != error.npos)
        error.append("; name the primary with --primary");
    if (!error.empty())
        co_return error;
    const Result listening = co_await connection_.query("LISTEN shortener", {}, patience, error);
    if (!listening || PQresultStatus(listening.get()) != PGRES_COMMAND_OK)
        co_return listening ? explain(listening.get()) : error;
    const Result result =
        co_await connection_.query("SELECT shortener.notification_key()", {}, patience, error);
    const auto key = result ? read_key(result.get()) : std::nullopt;
    if (!key)
        co_return result ? "cannot read the notification key: " + explain(result.get()) : error;
    cache_.set_key(*key);
    co_return std::string();
}

asio::awaitable<void> Listener::run() {
    Backoff backoff(context_);
    std::string complaint;
    for (bool first = true;; first = false) {
        if (!first)
            counters_.listen_reconnects++;
        const std::string problem = co_await begin();
        if (problem.empty()) {
            complaint.clear();
            backoff.reset();
            co_await listen();
            counters_.listening = false;
            log_line(LogLevel::warning, "lost the connection that listens for changes");
        } else if (problem != complaint) {
            complaint = problem;
            log_line(LogLevel::error, "cannot listen for changes: " + problem);
        }
        connection_.close();
        co_await backoff.wait();
    }
}

// Cached links must not become 503 because the threads still wait to connect again, or for an answer.
bool Listener::may_flush(Clock::time_point now) const {
    const int confirmed = status_.confirmed();
    return confirmed == status_.threads || (confirmed > 0 && now >= begun_ + flush_patience);
}

asio::awaitable<void> Listener::listen() {
    status_.returned++;
    begun_ = Clock::now();
    Clock::time_point next = begun_ + heartbeat;
    for (;;) {
        while (const auto payload = connection_.notification())
            apply(*payload);
        if (!connection_.is_open())
            co_return;
        const Clock::time_point now = Clock::now();
        if (!counters_.listening && may_flush(now)) {
            flush();
            counters_.listening = true;
            log_line(LogLevel::info, "listening for changes");
        }
        if (now >= next) {
            const bool alive = co_await connection_.answers(heartbeat_patience);
            if (!alive)
                co_return;
            next = Clock::now() + heartbeat;
            continue;
        }
        const bool open =
            co_await connection_.wait(counters_.listening ? next : std::min(next, now + flush_interval));
        if (!open)
            co_return;
    }
}

} // namespace shortener
