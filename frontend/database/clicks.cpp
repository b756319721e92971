#include "database/clicks.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <random>
#include <utility>

#include "database/result.h"

namespace shortener {

namespace {

constexpr const char* record_sql =
    "SELECT shortener.record_clicks(batch_id => $1::uuid, link_ids => $2::bigint[], clicked_at => "
    "$3::timestamptz[],"
    " ips => $4::inet[], user_agents => $5::text[], referers => $6::text[], workspace_ids => $7::bigint[])";
constexpr const char* record_unknown_sql =
    "SELECT shortener.record_unknown_codes(batch_id => $1::uuid, codes => $2::text[], hosts => $3::text[])";
constexpr const char* probe_sql =
    "SELECT f.oid::pg_catalog.regproc, pg_catalog.has_function_privilege(f.oid, 'EXECUTE') FROM (VALUES"
    " ('shortener.record_clicks(uuid,bigint[],timestamptz[],inet[],text[],text[],bigint[])'::pg_catalog."
    "regprocedure),"
    " ('shortener.record_unknown_codes(uuid,text[],text[])'::pg_catalog.regprocedure)) f (oid)";
// As much as the database keeps of a user agent, and as much as a URL may have.
constexpr std::size_t max_user_agent = 256, max_referer = 2048;

std::string timestamp(std::chrono::system_clock::time_point time) {
    const auto microseconds =
        std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch()).count();
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
    std::replace_if(
        clean.begin(), clean.end(), [](unsigned char c) { return c < 0x20 || c >= 0x7f; }, '?');
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

} // namespace

std::string random_uuid() {
    std::random_device random;
    const std::array<unsigned, 4> words{random(), random(), random(), random()};
    char text[37];
    std::snprintf(text, sizeof text, "%08x-%04x-4%03x-%04x-%04x%08x", words[0], words[1] >> 16,
                  words[1] & 0xfff, 0x8000 | (words[2] >> 16 & 0x3fff), words[2] & 0xffff, words[3]);
    return text;
}

bool is_hopeless(std::string_view sqlstate) {
    return sqlstate.starts_with("22") || sqlstate.starts_with("23");
}

Statement ClickQueue::statement(const std::string& batch_id, const std::vector<WaitingClick>& batch) const {
    ArrayLiteral links, times, visitors, user_agents, referers, workspaces;
    for (const WaitingClick& click : batch) {
        links.add(std::to_string(click.link_id));
        times.add(timestamp(click.time));
        visitors.add(click.visitor);
        user_agents.add(click.user_agent);
        referers.add(click.referer);
        workspaces.add(std::to_string(click.workspace_id));
    }
    return {record_sql,
            {batch_id, links.take(), times.take(), visitors.take(), user_agents.take(), referers.take(),
             workspaces.take()},
            true};
}

Statement ClickQueue::probe() const {
    return {probe_sql, {}};
}

std::string ClickQueue::judge(const PGresult* result) {
    for (int row = 0; row < PQntuples(result); row++)
        if (!boolean_at(result, row, 1))
            return "permission denied for function " + std::string(text_at(result, row, 0)) + "; " +
                   std::string(grant_advice);
    return {};
}

Statement UnknownVisitQueue::statement(const std::string& batch_id,
                                       const std::vector<UnknownVisit>& batch) const {
    ArrayLiteral codes, hosts;
    for (const UnknownVisit& visit : batch) {
        codes.add(visit.code);
        hosts.add(visit.host);
    }
    return {record_unknown_sql, {batch_id, codes.take(), hosts.take()}, true};
}

void ClickSender::clicked(const Click& click) {
    clicks_.add({click.link_id, click.workspace_id, std::chrono::system_clock::now(),
                 std::string(click.visitor), printable(click.user_agent, max_user_agent),
                 printable(click.referer, max_referer)});
}

void ClickSender::missed(std::string_view host, std::string_view code) {
    unknown_visits_.add({std::string(host), std::string(code)});
}

void ClickSender::drain(const std::function<void()>& sent) {
    const auto both = [this, sent] {
        if (clicks_.size() + unknown_visits_.size() == 0)
            sent();
    };
    clicks_.drain(both);
    unknown_visits_.drain(both);
}

} // namespace shortener
