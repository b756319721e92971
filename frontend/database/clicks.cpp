#include "database/clicks.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <random>
#include <utility>

#include <boost/asio/post.hpp>

#include "database/result.h"
#include "log.h"

namespace shortener {

namespace {

constexpr const char* record_sql =
    "SELECT shortener.record_clicks(batch_id => $1::uuid, link_ids => $2::bigint[], clicked_at => $3::timestamptz[],"
    " ips => $4::inet[], user_agents => $5::text[], referers => $6::text[], workspace_ids => $7::bigint[])";
constexpr const char* probe_sql =
    "SELECT pg_catalog.has_function_privilege(f.oid, 'EXECUTE') FROM (SELECT"
    " 'shortener.record_clicks(uuid,bigint[],timestamptz[],inet[],text[],text[],bigint[])'::pg_catalog.regprocedure) f (oid)";
constexpr std::chrono::seconds longest_pause{5};
// As much as the database keeps of a user agent, and as much as a URL may have.
constexpr std::size_t max_user_agent = 256, max_referer = 2048;

std::string random_uuid() {
    std::random_device random;
    const std::array<unsigned, 4> words{random(), random(), random(), random()};
    char text[37];
    std::snprintf(text, sizeof text, "%08x-%04x-4%03x-%04x-%04x%08x", words[0], words[1] >> 16, words[1] & 0xfff,
                  0x8000 | (words[2] >> 16 & 0x3fff), words[2] & 0xffff, words[3]);
    return text;
}

std::string timestamp(std::chrono::system_clock::time_point time) {
    const auto microseconds = std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch()).count();
    const std::time_t seconds = microseconds / 1000000;
    std::tm utc{};
    gmtime_r(&seconds, &utc);
    char text[64];
    const std::size_t length = std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &utc);
    std::snprintf(text + length, sizeof text - length, ".%06d+00", static_cast<int>(microseconds % 1000000));
    return text;
}

// What visitors send may be in no encoding, and the database in any: ASCII is in all.
std::string printable(std::string_view text, std::size_t longest) {
    std::string clean(text.substr(0, longest));
    std::replace_if(clean.begin(), clean.end(), [](unsigned char c) { return c < 0x20 || c >= 0x7f; }, '?');
    return clean;
}

// An array literal of text; empty ones are NULL.
class ArrayLiteral {
  public:
    void add(std::string_view text) {
        text_.push_back(text_.empty() ? '{' : ',');
        if (text.empty()) {
            text_.append("NULL");
            return;
        }
        text_.push_back('"');
        for (const char c : text) {
            if (c == '"' || c == '\\')
                text_.push_back('\\');
            text_.push_back(c);
        }
        text_.push_back('"');
    }
    std::string take() { return std::move(text_.append("}")); }

  private:
    std::string text_;
};

// Data that the database refuses (22), or that break a constraint (23), will be refused again.
bool is_hopeless(std::string_view sqlstate) {
    return sqlstate.starts_with("22") || sqlstate.starts_with("23");
}

} // namespace

std::size_t ClickQueue::Waiting::bytes() const {
    return sizeof *this + visitor.size() + user_agent.size() + referer.size();
}

void ClickQueue::clicked(const Click& click) {
    Waiting waiting{click.link_id,
                    click.workspace_id,
                    std::chrono::system_clock::now(),
                    std::string(click.visitor),
                    printable(click.user_agent, max_user_agent),
                    printable(click.referer, max_referer)};
    bool due;
    {
        const std::lock_guard lock(mutex_);
        if (bytes_ + waiting.bytes() > max_bytes_) {
            counters_.clicks_dropped++;
            return;
        }
        if (waiting_.empty())
            first_ = Clock::now();
        bytes_ += waiting.bytes();
        waiting_.push_back(std::move(waiting));
        due = waiting_.size() == 1 || waiting_.size() == max_batch;
    }
    counters_.clicks_waiting++;
    if (due)
        boost::asio::post(context_, [this] { wake(); });
}

std::size_t ClickQueue::size() const {
    const std::lock_guard lock(mutex_);
    return waiting_.size() + batch_.size();
}

void ClickQueue::drain(std::function<void()> sent) {
    {
        const std::lock_guard lock(mutex_);
        draining_ = true;
    }
    sent_ = std::move(sent);
    if (size() == 0)
        return sent_();
    wake();
}

Clock::time_point ClickQueue::due() const {
    if (!batch_.empty())
        return try_again_;
    const std::lock_guard lock(mutex_);
    if (waiting_.empty())
        return Clock::time_point::max();
    return std::max(try_again_, draining_ || waiting_.size() >= max_batch ? Clock::time_point::min() : first_ + interval);
}

Statement ClickQueue::take() {
    if (batch_.empty()) {
        batch_id_ = random_uuid();
        const std::lock_guard lock(mutex_);
        const auto end = waiting_.begin() + std::min(max_batch, waiting_.size());
        batch_.assign(std::make_move_iterator(waiting_.begin()), std::make_move_iterator(end));
        waiting_.erase(waiting_.begin(), end);
        first_ = Clock::now();
    }
    ArrayLiteral links, times, visitors, user_agents, referers, workspaces;
    for (const Waiting& click : batch_) {
        links.add(std::to_string(click.link_id));
        times.add(timestamp(click.time));
        visitors.add(click.visitor);
        user_agents.add(click.user_agent);
        referers.add(click.referer);
        workspaces.add(std::to_string(click.workspace_id));
    }
    return {record_sql,
            {batch_id_, links.take(), times.take(), visitors.take(), user_agents.take(), referers.take(), workspaces.take()},
            true};
}

void ClickQueue::batch_done() {
    std::size_t bytes = 0;
    for (const Waiting& click : batch_)
        bytes += click.bytes();
    counters_.clicks_waiting -= batch_.size();
    batch_.clear();
    try_again_ = Clock::time_point::min();
    pause_ = interval;
    {
        const std::lock_guard lock(mutex_);
        bytes_ -= bytes;
    }
    if (sent_ && size() == 0)
        sent_();
}

bool ClickQueue::answered(const PGresult*) {
    counters_.clicks_sent += batch_.size();
    counters_.click_batches++;
    batch_done();
    return true;
}

void ClickQueue::failed(std::string_view sqlstate) {
    if (is_hopeless(sqlstate)) {
        log_line(LogLevel::error, "dropped a batch of " + std::to_string(batch_.size()) + " clicks that the database refuses");
        counters_.clicks_dropped += batch_.size();
        return batch_done();
    }
    try_again_ = Clock::now() + pause_;
    pause_ = std::min<std::chrono::milliseconds>(pause_ * 2, longest_pause);
}

Statement ClickQueue::probe() const {
    return {probe_sql, {}};
}

std::string ClickQueue::judge(const PGresult* result) {
    if (PQntuples(result) == 1 && boolean_at(result, 0, 0))
        return {};
    return "permission denied for function record_clicks; grant the role what the installation notes of shortenerd list";
}

} // namespace shortener
