#include "database/listener.h"

#include <cstring>
#include <utility>

#include <boost/asio/co_spawn.hpp>

#include "database/backoff.h"
#include "database/notification.h"
#include "log.h"

namespace shortener {

namespace {

namespace asio = boost::asio;

constexpr std::chrono::seconds patience{5};
// A connection that died without a word is noticed by asking.
constexpr std::chrono::seconds heartbeat{5};

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

Listener::Listener(asio::io_context& context, ConnectionSettings settings, Cache& cache, Directory& directory,
                   Gauges& gauges)
    : context_(context), connection_(context, std::move(settings)), cache_(cache), directory_(directory),
      gauges_(gauges) {}

void Listener::start() {
    asio::co_spawn(context_, run(), end_program);
}

void Listener::flush() {
    const Clock::time_point now = Clock::now();
    cache_.flush(now);
    directory_.flush(now);
    gauges_.flushes++;
}

void Listener::apply(std::string_view payload) {
    gauges_.notifications++;
    const Clock::time_point now = Clock::now();
    read_notification(
        payload, [&](std::uint64_t tag) { cache_.invalidate(tag, now); }, [&] { flush(); });
}

// LISTEN first, then forget: a change in between is notified.
asio::awaitable<bool> Listener::begin(std::string& error) {
    error = co_await connection_.connect();
    if (!error.empty())
        co_return false;
    const Result listening =
        co_await connection_.query("LISTEN shortener", {}, Clock::now() + patience, error);
    if (!listening || PQresultStatus(listening.get()) != PGRES_COMMAND_OK) {
        if (listening)
            error = PQresultErrorMessage(listening.get());
        co_return false;
    }
    const Result result =
        co_await connection_.query("SELECT shortener.notification_key()", {}, Clock::now() + patience, error);
    const auto key = result ? read_key(result.get()) : std::nullopt;
    if (!key) {
        if (result)
            error = std::string("cannot read the notification key: ") + PQresultErrorMessage(result.get());
        co_return false;
    }
    cache_.set_key(*key);
    flush();
    co_return true;
}

asio::awaitable<void> Listener::run() {
    Backoff backoff;
    bool complained = false;
    for (bool first = true;; first = false) {
        if (!first)
            gauges_.listen_reconnects++;
        std::string error;
        if (co_await begin(error)) {
            log_line(LogLevel::info, "listening for changes");
            gauges_.listening = true;
            complained = false;
            backoff.reset();
            co_await listen();
            gauges_.listening = false;
            log_line(LogLevel::warning, "lost the connection that listens for changes");
        } else if (!std::exchange(complained, true)) {
            log_line(LogLevel::error, "cannot listen for changes: " + error);
        }
        connection_.close();
        co_await backoff.wait(context_);
    }
}

asio::awaitable<void> Listener::listen() {
    Clock::time_point next = Clock::now() + heartbeat;
    for (;;) {
        while (const auto payload = connection_.notification())
            apply(*payload);
        if (!connection_.is_open())
            co_return;
        if (Clock::now() >= next) {
            std::string error;
            if (!co_await connection_.query("SELECT", {}, Clock::now() + patience, error))
                co_return;
            next = Clock::now() + heartbeat;
        } else if (!co_await connection_.wait(next)) {
            co_return;
        }
    }
}

} // namespace shortener
