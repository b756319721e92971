#include "database/codes.h"

#include <algorithm>

#include "database/result.h"
#include "log.h"

namespace shortener {

namespace {

enum Column { http_status, location, cache_seconds, link_id, workspace_id, milliseconds_left, in_recovery };

// The time left is computed there, so that the clocks of the two machines need not agree. OFFSET 0 hides the
// arrays from the planner: it would plan anew for short ones, which takes longer than the look-ups.
constexpr const char* resolve_sql =
    "SELECT r.http_status, r.location, r.cache_seconds, r.link_id, r.workspace_id,"
    " pg_catalog.ceil(extract(epoch FROM r.expires_at - pg_catalog.clock_timestamp()) * 1000)::bigint, "
    "q.in_recovery"
    " FROM (SELECT $1::text[] AS codes, $2::text[] AS hosts, pg_catalog.pg_is_in_recovery() AS in_recovery "
    "OFFSET 0) q,"
    " LATERAL shortener.resolve_many(q.codes, q.hosts) r";

// A link with so much left does not expire while this process runs; three centuries would not fit into a
// time_point.
constexpr std::chrono::milliseconds forever = std::chrono::hours(24 * 365 * 100);

void append_element(std::string& array, std::string_view element) {
    array.push_back(array.empty() ? '{' : ',');
    if (element.empty())
        array.append("NULL");
    else
        array.append("\"").append(element).append("\"");
}

// What may stand in a Location field. The database stores nothing else; if it did, it must not become a
// header.
bool is_location(std::string_view text) {
    return !text.empty() &&
           std::all_of(text.begin(), text.end(), [](unsigned char c) { return c > 0x20 && c < 0x7f; });
}

} // namespace

Statement CodeQueue::probe() const {
    return {resolve_sql, {"{0}", "{NULL}"}, true};
}

// The answer to a code at no host is that of the default workspace.
std::string CodeQueue::judge(const PGresult* result) {
    if (PQntuples(result) != 1)
        return "resolve_many() does not return a row for a code";
    set_workspace_missing(PQgetisnull(result, 0, workspace_id));
    status_.confirm(thread_);
    return {};
}

// Visitors of hosts that have a workspace are served all the same.
void CodeQueue::set_workspace_missing(bool missing) {
    if (missing == std::exchange(workspace_missing_, missing))
        return;
    const std::string name = default_workspace_.empty()
                                 ? "the database's default workspace (shortener.default_workspace)"
                                 : "default workspace \"" + default_workspace_ + "\" (--default-workspace)";
    if (missing && status_.without_workspace++ == 0)
        log_line(LogLevel::error, name + " does not exist; hosts that are in no domain row get 503");
    else if (!missing && --status_.without_workspace == 0)
        log_line(LogLevel::info, name + " exists again");
}

Statement CodeQueue::statement(const std::vector<Asked>& batch) const {
    std::string codes, hosts;
    for (const Asked& asked : batch) {
        const auto& question = static_cast<const CodeQuestion&>(*asked);
        append_element(codes, question.code());
        append_element(hosts, question.host());
    }
    return {resolve_sql, {std::move(codes.append("}")), std::move(hosts.append("}"))}, true};
}

std::optional<CodeAnswer> CodeQueue::read(const PGresult* result, int row, Clock::time_point now) {
    if (PQgetisnull(result, row, workspace_id)) {
        set_workspace_missing(true);
        return std::nullopt;
    }
    CodeAnswer answer;
    answer.cache_seconds = std::chrono::seconds(number_at(result, row, cache_seconds));
    answer.from_standby = boolean_at(result, row, in_recovery);
    Resolution& resolution = answer.resolution;
    resolution.status = static_cast<int>(number_at(result, row, http_status));
    resolution.link_id = number_at(result, row, link_id);
    resolution.workspace_id = number_at(result, row, workspace_id);
    switch (resolution.status) {
    case 301:
    case 302:
    case 307:
    case 308:
        if (!is_location(text_at(result, row, location)))
            return std::nullopt;
        resolution.location = text_at(result, row, location);
        if (const std::chrono::milliseconds left(number_at(result, row, milliseconds_left));
            !PQgetisnull(result, row, milliseconds_left) && left < forever)
            resolution.expires = now + left;
        return answer;
    case 404:
    case 410: return answer;
    default: return std::nullopt;
    }
}

} // namespace shortener
