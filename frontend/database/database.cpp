#include "database/database.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <random>
#include <utility>
#include <vector>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "database/backoff.h"
#include "log.h"

namespace shortener {

namespace {

namespace asio = boost::asio;

// The time left is computed there, so that the clocks of the two machines need not agree. OFFSET 0 hides the arrays
// from the planner: it would plan anew for short ones, which takes longer than the look-ups.
constexpr const char* resolve_sql =
    "SELECT r.http_status, r.location, r.cache_seconds, r.link_id, r.workspace_id,"
    " ceil(extract(epoch FROM r.expires_at - pg_catalog.clock_timestamp()) * 1000)::bigint"
    " FROM (SELECT $1::text[] AS codes, $2::text[] AS hosts OFFSET 0) q,"
    " LATERAL shortener.resolve_many(q.codes, q.hosts) r";
// The first query of a session reads the library and the catalogs.
constexpr std::chrono::seconds probe_patience{5};
// A database that hangs or was changed while nobody asked is noticed by asking.
constexpr std::chrono::seconds heartbeat{5};
// A link with so much left does not expire while this process runs; three centuries would not fit into a time_point.
constexpr std::chrono::milliseconds forever = std::chrono::hours(24 * 365 * 100);
constexpr const char* texts_sql = "SELECT not_found_text, gone_text FROM shortener.page_texts($1::bigint)";

// Codes and hosts consist of characters that need no escape inside the quotes.
void append_array(std::string& array, const std::string& element) {
    array.push_back(array.empty() ? '{' : ',');
    if (element.empty())
        array.append("NULL");
    else
        array.append("\"").append(element).append("\"");
}

std::int64_t number(const PGresult* result, int row, int column) {
    std::int64_t value = 0;
    const char* text = PQgetvalue(result, row, column);
    std::from_chars(text, text + PQgetlength(result, row, column), value);
    return value;
}

// What may stand in a Location field. The database stores nothing else; if it did, it must not become a header.
bool is_location(std::string_view text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return c > 0x20 && c < 0x7f; });
}

Answer read_answer(const PGresult* result, int row, Clock::time_point now) {
    Answer answer;
    Resolution& resolution = answer.resolution;
    resolution.status = static_cast<int>(number(result, row, 0));
    answer.cache_seconds = std::chrono::seconds(number(result, row, 2));
    resolution.link_id = number(result, row, 3);
    resolution.workspace_id = number(result, row, 4);
    switch (resolution.status) {
    case 301:
    case 302:
    case 307:
    case 308:
        resolution.location.assign(PQgetvalue(result, row, 1), PQgetlength(result, row, 1));
        if (const std::chrono::milliseconds left(number(result, row, 5)); !PQgetisnull(result, row, 5) && left < forever)
            resolution.expires = now + left;
        answer.known = is_location(resolution.location);
        break;
    case 404:
    case 410:
        answer.known = true;
        break;
    }
    return answer;
}

} // namespace

Database::Database(asio::io_context& context, const ConnectionSettings& settings, std::chrono::milliseconds timeout,
                   Counters& counters, Gauges& gauges)
    : context_(context), connection_(context, settings), timeout_(timeout), counters_(counters), gauges_(gauges) {}

void Database::start() {
    asio::co_spawn(context_, run(), end_program);
}

void Database::resolve(std::string host, std::string code, Resolved resolved) {
    if (away_ || questions_.size() >= max_waiting)
        return asio::post(context_, [resolved = std::move(resolved)] { resolved(Answer{}); });
    questions_.push_back({std::move(host), std::move(code), std::move(resolved), Clock::now() + timeout_});
    if (idle_)
        connection_.wake();
}

void Database::read_texts(std::int64_t workspace_id, TextsRead read) {
    if (away_ || texts_.size() >= max_waiting)
        return read(nullptr);
    texts_.push_back({workspace_id, std::move(read), Clock::now() + timeout_});
    if (idle_)
        connection_.wake();
}

void Database::tick(Clock::time_point now) {
    fail_waiting(now);
}

// Questions are in the order of their deadlines. They may ask again while they are told.
void Database::fail_waiting(Clock::time_point deadline) {
    while (!questions_.empty() && questions_.front().deadline <= deadline) {
        const Question question = std::move(questions_.front());
        questions_.pop_front();
        Counters::add(counters_.database_errors);
        question.resolved(Answer{});
    }
    while (!texts_.empty() && texts_.front().deadline <= deadline) {
        const TextsQuestion question = std::move(texts_.front());
        texts_.pop_front();
        Counters::add(counters_.database_errors);
        question.read(nullptr);
    }
}

// Behind a pooler the name must mean nothing to anybody else. If the statement cannot be prepared, resolving will
// not work either and say why, or work without.
asio::awaitable<void> Database::prepare() {
    std::random_device random;
    std::string error;
    prepared_ = "shortenerd_" + std::to_string(std::uint64_t{random()} << 32 | random());
    const Result result = co_await connection_.prepare(prepared_, resolve_sql, Clock::now() + probe_patience, error);
    if (!result || PQresultStatus(result.get()) != PGRES_COMMAND_OK)
        prepared_.clear();
}

// A pooler may have no prepared statements, and an update of the extension may spoil this one: then never again on
// this connection.
asio::awaitable<Result> Database::resolve_query(const Parameters& parameters, Clock::time_point deadline, std::string& error) {
    if (!prepared_.empty()) {
        Result result = co_await connection_.query_prepared(prepared_, parameters, deadline, error);
        if (!result || PQresultStatus(result.get()) == PGRES_TUPLES_OK)
            co_return result;
        prepared_.clear();
    }
    co_return co_await connection_.query(resolve_sql, parameters, deadline, error);
}

// Whoever can connect may still lack the extension, its tables or the right to read them.
asio::awaitable<std::string> Database::probe(std::chrono::milliseconds patience) {
    std::string error;
    Parameters parameters;
    parameters.emplace_back("{0}");
    parameters.emplace_back("{NULL}");
    const Result result = co_await resolve_query(parameters, Clock::now() + patience, error);
    if (result && PQresultStatus(result.get()) == PGRES_TUPLES_OK && PQntuples(result.get()) == 1)
        co_return std::string();
    if (result)
        error = PQresultErrorMessage(result.get());
    connection_.close();
    co_return error.empty() ? "it cannot resolve codes" : error;
}

asio::awaitable<void> Database::run() {
    Backoff backoff;
    std::string complaint;
    for (bool first = true;; first = false) {
        std::string error = co_await connection_.connect();
        if (!first)
            Counters::add(counters_.reconnects);
        if (error.empty()) {
            co_await prepare();
            error = co_await probe(probe_patience);
        }
        if (!error.empty()) {
            if (!std::exchange(away_, true) || error != complaint)
                log_line(LogLevel::error, "no database: " + error);
            complaint = std::move(error);
            fail_waiting(Clock::time_point::max());
            co_await backoff.wait(context_);
            continue;
        }
        if (std::exchange(away_, false))
            log_line(LogLevel::info, "the database is back");
        backoff.reset();
        gauges_.databases++;
        while (connection_.is_open()) {
            // A question whose time is over would cost those behind it the connection.
            fail_waiting(Clock::now());
            if (!texts_.empty())
                co_await read_one_texts();
            else if (!questions_.empty())
                co_await resolve_batch();
            else
                co_await idle();
        }
        gauges_.databases--;
        log_line(LogLevel::warning, "lost a connection to the database");
    }
}

asio::awaitable<void> Database::idle() {
    const Clock::time_point end = Clock::now() + heartbeat;
    idle_ = true;
    co_await connection_.wait(end);
    idle_ = false;
    if (Clock::now() < end || !connection_.is_open())
        co_return;
    const std::string error = co_await probe(timeout_);
    if (!error.empty())
        log_line(LogLevel::error, "cannot resolve: " + error);
}

asio::awaitable<void> Database::resolve_batch() {
    std::vector<Question> batch;
    std::string codes, hosts;
    while (!questions_.empty() && batch.size() < max_batch) {
        append_array(codes, questions_.front().code);
        append_array(hosts, questions_.front().host);
        batch.push_back(std::move(questions_.front()));
        questions_.pop_front();
    }
    codes.push_back('}');
    hosts.push_back('}');

    std::string error;
    Parameters parameters;
    parameters.emplace_back(std::move(codes));
    parameters.emplace_back(std::move(hosts));
    const Result result = co_await resolve_query(parameters, batch.front().deadline, error);
    if (!result) {
        // The connection was lost, perhaps long ago, or the first has waited for too long: the next connection may
        // still answer the others in time.
        Counters::add(counters_.database_errors);
        if (Clock::now() >= batch.front().deadline)
            log_line(LogLevel::error, "cannot resolve: " + error);
        questions_.insert(questions_.begin(), std::make_move_iterator(batch.begin()), std::make_move_iterator(batch.end()));
        fail_waiting(Clock::now());
        co_return;
    }
    const bool good = PQresultStatus(result.get()) == PGRES_TUPLES_OK &&
                      PQntuples(result.get()) == static_cast<int>(batch.size());
    if (good) {
        counters_.count_batch(batch.size());
    } else {
        Counters::add(counters_.database_errors);
        log_line(LogLevel::error, std::string("cannot resolve: ") + PQresultErrorMessage(result.get()));
        connection_.close(); // the next one is probed before anybody waits for it
    }
    const Clock::time_point now = Clock::now();
    for (std::size_t i = 0; i < batch.size(); i++)
        batch[i].resolved(good ? read_answer(result.get(), static_cast<int>(i), now) : Answer{});
}

asio::awaitable<void> Database::read_one_texts() {
    const std::int64_t workspace_id = texts_.front().workspace_id;
    std::string error;
    Parameters parameters;
    parameters.emplace_back(std::to_string(workspace_id));
    const Result result = co_await connection_.query(texts_sql, parameters, texts_.front().deadline, error);
    // One answer for all who asked the same meanwhile.
    const auto tell = [&](const PageTexts* texts) {
        std::deque<TextsQuestion> others, same;
        for (TextsQuestion& question : texts_)
            (question.workspace_id == workspace_id ? same : others).push_back(std::move(question));
        texts_ = std::move(others);
        for (const TextsQuestion& question : same)
            question.read(texts);
    };
    if (!result || PQresultStatus(result.get()) != PGRES_TUPLES_OK) {
        Counters::add(counters_.database_errors);
        log_line(LogLevel::error, "cannot read page texts: " + (result ? std::string(PQresultErrorMessage(result.get())) : error));
        tell(nullptr);
        co_return;
    }
    Counters::add(counters_.round_trips);
    PageTexts texts;
    if (PQntuples(result.get()) == 1) {
        const auto text = [&](int column) -> std::optional<std::string> {
            if (PQgetisnull(result.get(), 0, column))
                return std::nullopt;
            return std::string(PQgetvalue(result.get(), 0, column), PQgetlength(result.get(), 0, column));
        };
        texts = {text(0), text(1)};
    }
    tell(&texts);
}

} // namespace shortener
