#include "database/client.h"

#include <algorithm>
#include <random>
#include <utility>

#include <boost/asio/co_spawn.hpp>

#include "database/result.h"
#include "log.h"

namespace shortener {

namespace {

namespace asio = boost::asio;

// A database that was changed while nobody asked is noticed by asking.
constexpr std::chrono::seconds probe_interval{5};

std::string statement_name() {
    // Behind a pooler it must mean nothing to anybody else.
    std::random_device random;
    return "shortenerd_" + std::to_string(std::uint64_t{random()} << 32 | random());
}

// Another try without the prepared statement may help, but not against these: 53 insufficient resources, 57
// operator intervention, a cancelled statement among them.
bool may_be_the_plan(const PGresult* result) {
    return !sqlstate(result).starts_with("53") && !sqlstate(result).starts_with("57");
}

} // namespace

DatabaseClient::DatabaseClient(asio::io_context& context, Settings settings,
                               std::vector<StatementQueue*> queues, Counters& counters,
                               std::function<void(bool)> changed)
    : context_(context), settings_(std::move(settings)), queues_(std::move(queues)), counters_(counters),
      changed_(std::move(changed)), connection_(context, settings_.connection), backoff_(context) {
    for (StatementQueue* queue : queues_)
        queue->set_wake([this] {
            if (idle_)
                connection_.wake();
        });
}

void DatabaseClient::start() {
    asio::co_spawn(context_, run(), end_program);
}

void DatabaseClient::hurry() {
    backoff_.cut_short();
    next_probe_ = Clock::time_point::min();
    if (idle_)
        connection_.wake();
}

void DatabaseClient::set_away(bool away) {
    away_ = away;
    for (StatementQueue* queue : queues_)
        queue->set_away(away);
}

asio::awaitable<void> DatabaseClient::run() {
    for (;;) {
        std::string problem;
        if (!connection_.is_open())
            problem = co_await connect();
        if (problem.empty())
            problem = co_await probe();
        if (!problem.empty()) {
            if (!away_ || problem != complaint_)
                log_line(LogLevel::error, problem);
            complaint_ = std::move(problem);
            set_away(true);
            co_await backoff_.wait();
            continue;
        }
        if (away_)
            log_line(LogLevel::info, std::string("can ") + settings_.purpose + " again");
        set_away(false);
        backoff_.reset();
        changed_(true);
        co_await serve();
        changed_(false);
        if (!connection_.is_open())
            log_line(LogLevel::warning, "lost a connection to the database");
    }
}

asio::awaitable<std::string> DatabaseClient::connect() {
    prepared_.clear();
    if (std::exchange(connected_before_, true))
        Counters::add(counters_.reconnects);
    std::string error = co_await connection_.connect();
    co_return error.empty() ? error : "no database: " + error;
}

// Whoever can connect may still lack the extension, its tables or the right to use them.
asio::awaitable<std::string> DatabaseClient::probe() {
    StatementQueue& first = *queues_.front();
    std::string problem;
    const Statement statement = first.probe();
    const Result result = co_await execute(statement, problem);
    if (result)
        problem = PQresultStatus(result.get()) == PGRES_TUPLES_OK ? first.judge(result.get())
                                                                  : explain(result.get());
    co_return problem.empty() ? problem : std::string("cannot ") + settings_.purpose + ": " + problem;
}

// Sends what there is to send, until something goes wrong.
asio::awaitable<void> DatabaseClient::serve() {
    next_probe_ = Clock::now() + probe_interval;
    while (connection_.is_open()) {
        if (Clock::now() >= next_probe_) {
            const std::string problem = co_await probe();
            if (!problem.empty())
                co_return;
            next_probe_ = Clock::now() + probe_interval;
            continue;
        }
        if (StatementQueue* queue = next_due()) {
            const bool good = co_await exchange(*queue);
            if (!good)
                co_return;
            continue;
        }
        Clock::time_point until = next_probe_;
        for (const StatementQueue* queue : queues_)
            until = std::min(until, queue->due());
        co_await idle(until);
    }
}

// In turn, so that none waits for long behind another.
StatementQueue* DatabaseClient::next_due() {
    const Clock::time_point now = Clock::now();
    for (std::size_t i = 0; i < queues_.size(); i++) {
        StatementQueue* queue = queues_[(turn_ + i) % queues_.size()];
        if (queue->due() <= now) {
            turn_ = (turn_ + i + 1) % queues_.size();
            return queue;
        }
    }
    return nullptr;
}

asio::awaitable<void> DatabaseClient::idle(Clock::time_point until) {
    idle_ = true;
    co_await connection_.wait(until);
    idle_ = false;
}

asio::awaitable<bool> DatabaseClient::exchange(StatementQueue& queue) {
    std::string error;
    const Statement statement = queue.take();
    const Result result = co_await execute(statement, error);
    if (result && PQresultStatus(result.get()) == PGRES_TUPLES_OK && queue.answered(result.get())) {
        complaint_.clear();
        co_return true;
    }
    if (result)
        error = explain(result.get());
    error = std::string("cannot ") + settings_.purpose + ": " + error;
    if (error != complaint_)
        log_line(LogLevel::error, error);
    complaint_ = std::move(error);
    queue.failed(result ? sqlstate(result.get()) : std::string_view());
    co_return false;
}

// A pooler may have no prepared statements, and an update of the extension may spoil one: then never again on
// this connection.
asio::awaitable<Result> DatabaseClient::execute(const Statement& statement, std::string& error) {
    if (statement.prepared) {
        const auto [place, first] = prepared_.try_emplace(statement.sql);
        std::string& name = place->second;
        if (first) {
            name = statement_name();
            const Result result =
                co_await connection_.prepare(name, statement.sql, settings_.patience, error);
            if (!result || PQresultStatus(result.get()) != PGRES_COMMAND_OK)
                name.clear();
            if (!result)
                co_return Result();
        }
        if (!name.empty()) {
            Result result =
                co_await connection_.query_prepared(name, statement.parameters, settings_.patience, error);
            if (!result || PQresultStatus(result.get()) == PGRES_TUPLES_OK || !may_be_the_plan(result.get()))
                co_return result;
            name.clear();
        }
    }
    co_return co_await connection_.query(statement.sql, statement.parameters, settings_.patience, error);
}

} // namespace shortener
