// Recording of clicks. Everything runs with the rights of the caller, but for the salts of the days, which
// are secret, and for what rollup_clicks will count, which nobody must make up.

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "core/url.h"

#include "pg/click_dictionary.h"
#include "pg/click_salt.h"
#include "pg/guard.h"
#include "pg/installation.h"
#include "pg/owner_section.h"
#include "pg/plans.h"
#include "pg/text.h"
#include "pg/visitor.h"

extern "C" {
#include "access/htup_details.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/array.h"
#include "utils/date.h"
#include "utils/datetime.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
}

using namespace shortener;

namespace {

// A clock may be ahead of ours by so much.
constexpr TimestampTz max_ahead = USECS_PER_MINUTE;

// An argument that is an array; NULL is one of nulls.
struct Elements {
    Datum* values = nullptr;
    bool* nulls = nullptr;
    int count = -1;

    bool is_null(int i) const { return count < 0 || nulls[i]; }
    std::string_view text(int i) const { return is_null(i) ? std::string_view() : text_view(values[i]); }
};

Elements array_argument(FunctionCallInfo fcinfo, int index, Oid type) {
    Elements argument;
    if (PG_ARGISNULL(index))
        return argument;
    ArrayType* const array = PG_GETARG_ARRAYTYPE_P(index);
    if (ARR_NDIM(array) > 1)
        ereport(ERROR,
                (errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR), errmsg("arrays of clicks must have one dimension")));
    int16 length;
    bool by_value;
    char alignment;
    get_typlenbyvalalign(type, &length, &by_value, &alignment);
    deconstruct_array(array, type, length, by_value, alignment, &argument.values, &argument.nulls,
                      &argument.count);
    return argument;
}

// Of an http or https URL, or of an app on Android; empty if there is none. Paths may be personal and are not
// kept.
std::string_view referrer_host(std::string_view referrer) {
    constexpr std::string_view android = "android-app://";
    constexpr std::size_t longest_referrer = 8192, longest_host = 255;
    if (referrer.empty() || referrer.size() > longest_referrer)
        return {};
    if (referrer.starts_with(android)) {
        referrer.remove_prefix(android.size());
        const std::string_view package = referrer.substr(0, referrer.find('/'));
        const bool is_package =
            package.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._") ==
            std::string_view::npos;
        return is_package && package.size() <= longest_host ? package : std::string_view();
    }
    // Behind the host there may be bytes that are no UTF-8, in a database of another encoding.
    constexpr std::size_t scheme_length = std::string_view("https://").size();
    referrer = referrer.substr(0, referrer.find_first_of("/\\?#", scheme_length));
    const std::size_t bound = url_bound(referrer.size());
    char* const storage = static_cast<char*>(palloc(bound));
    Url url;
    std::string_view host;
    if (canonical_url(referrer, {storage, bound}, url) == UrlError::none &&
        url.hostname.size() <= longest_host)
        host = {pnstrdup(url.hostname.data(), url.hostname.size()), url.hostname.size()};
    pfree(storage);
    return host;
}

DateADT day_of(TimestampTz time) {
    const int64 days = time / USECS_PER_DAY;
    return static_cast<DateADT>(time % USECS_PER_DAY < 0 ? days - 1 : days);
}

// The months (UTC) that click_event has a partition for. A click of another month could not be stored.
class Months {
  public:
    Months() : schema_(get_namespace_oid("shortener", false)) {
        const Oid table = get_relname_relid("click_event", schema_);
        if (OidIsValid(table))
            LockRelationOid(table, RowExclusiveLock); // none comes or goes until the clicks are stored
    }
    bool has(TimestampTz time) {
        if (time < begin_ || time >= end_)
            look_up(time);
        return has_;
    }

  private:
    void look_up(TimestampTz time) {
        pg_tm parts;
        fsec_t fraction;
        has_ = false;
        begin_ = end_ = 0;
        if (timestamp2tm(time, nullptr, &parts, &fraction, nullptr, nullptr) != 0 || parts.tm_year < 0)
            return;
        begin_ = (date2j(parts.tm_year, parts.tm_mon, 1) - POSTGRES_EPOCH_JDATE) * USECS_PER_DAY;
        end_ = (date2j(parts.tm_year, parts.tm_mon + 1, 1) - POSTGRES_EPOCH_JDATE) * USECS_PER_DAY;
        const Oid partition =
            get_relname_relid(psprintf("click_event_y%04dm%02d", parts.tm_year, parts.tm_mon), schema_);
        HeapTuple row =
            OidIsValid(partition) ? SearchSysCache1(RELOID, ObjectIdGetDatum(partition)) : nullptr;
        if (HeapTupleIsValid(row)) {
            has_ = reinterpret_cast<Form_pg_class>(GETSTRUCT(row))->relispartition;
            ReleaseSysCache(row);
        }
    }

    Oid schema_;
    TimestampTz begin_ = 0, end_ = 0; // of the month looked up last
    bool has_ = false;
};

struct Click {
    int64 link_id;
    TimestampTz clicked_at;
    int32 workspace_id;
    int place; // in the arrays
};

// The salts of the days of clicks, taken in the order of the days: two batches that make the same ones must
// not wait for each other.
class Salts {
  public:
    Salts(const Click* clicks, int count) : days_(allocate<DateADT>(count)), keys_(nullptr) {
        for (int i = 0; i < count; i++)
            days_[i] = day_of(clicks[i].clicked_at);
        std::sort(days_, days_ + count);
        count_ = static_cast<int>(std::unique(days_, days_ + count) - days_);
        keys_ = allocate<SipKey>(count_);
        for (int i = 0; i < count_; i++)
            keys_[i] = salt_of(days_[i]);
    }
    const SipKey& of(DateADT day) const {
        return keys_[std::lower_bound(days_, days_ + count_, day) - days_];
    }

  private:
    DateADT* days_;
    SipKey* keys_;
    int count_;
};

struct Visits {
    Elements ips, user_agents, referrers;
};

IpAddress address_of(const Visits& visits, int place) {
    return visits.ips.is_null(place) ? IpAddress() : ip_address_from_datum(visits.ips.values[place]);
}

std::string_view place_name(const IpAddress& address) {
    if (address.size == 0)
        return {};
    const GeoLocation location = geo_lookup(address);
    const std::string_view country = location.country.view(), city = location.city.view();
    if (country.empty() && city.empty())
        return {};
    return psprintf("%.*s/%.*s", static_cast<int>(country.size()), country.data(),
                    static_cast<int>(city.size()), city.data());
}

// What is stored of clicks beside their links and times, each at the place of its click.
struct Columns {
    explicit Columns(int count)
        : user_agent_ids(allocate<Datum>(count)), referrer_ids(allocate<Datum>(count)),
          place_ids(allocate<Datum>(count)), visitors(allocate<Datum>(count)),
          ips(allocate<std::optional<Datum>>(count)) {}

    Datum* user_agent_ids;
    Datum* referrer_ids;
    Datum* place_ids;
    Datum* visitors;
    std::optional<Datum>* ips;
};

// Of clicks of one workspace.
Columns describe(const Click* clicks, int count, const Visits& visits, const Salts& salts) {
    const int32 workspace_id = clicks[0].workspace_id;
    const DateADT today = day_of(GetCurrentTransactionStartTimestamp());
    Columns columns(count);
    Terms given_user_agents(count), user_agent_terms(count), given_referrers(count), hosts(count),
        place_terms(count);
    int* const cut = allocate<int>(count); // of each given user agent, the one that is stored
    int* const user_agent = allocate<int>(count);
    int* const referrer = allocate<int>(count);
    int* const place = allocate<int>(count);
    int given_cut = 0;
    for (int i = 0; i < count; i++) {
        CHECK_FOR_INTERRUPTS();
        const IpAddress address = address_of(visits, clicks[i].place);
        const int given = given_user_agents.add(visits.user_agents.text(clicks[i].place));
        if (given == given_cut)
            cut[given_cut++] = user_agent_terms.add(cut_user_agent(given_user_agents[given]));
        user_agent[i] = cut[given];
        referrer[i] = given_referrers.add(visits.referrers.text(clicks[i].place));
        place[i] = place_terms.add(place_name(address));
        columns.visitors[i] = Int64GetDatum(static_cast<int64>(
            visitor_hash(salts.of(day_of(clicks[i].clicked_at)), address, user_agent_terms[user_agent[i]])));
        columns.ips[i] =
            address.size == 0 ? std::nullopt : std::optional(ip_address_datum(anonymized(address)));
    }
    int* const host = allocate<int>(given_referrers.count()); // of each given referrer
    for (int i = 0; i < given_referrers.count(); i++) {
        CHECK_FOR_INTERRUPTS();
        host[i] = hosts.add(referrer_host(given_referrers[i]));
    }
    const int32* const user_agent_ids = numbers_of(user_agents, workspace_id, user_agent_terms, today);
    const int32* const host_ids = numbers_of(referrers, workspace_id, hosts, today);
    const int32* const place_ids = numbers_of(places, workspace_id, place_terms, today);
    for (int i = 0; i < count; i++) {
        columns.user_agent_ids[i] = Int32GetDatum(user_agent_ids[user_agent[i]]);
        columns.referrer_ids[i] = Int32GetDatum(host_ids[host[referrer[i]]]);
        columns.place_ids[i] = Int32GetDatum(place_ids[place[i]]);
    }
    return columns;
}

// Records clicks of one workspace.
void record(const Click* clicks, int count, const Visits& visits, const Salts& salts) {
    static KeptStatement into_events(
        "INSERT INTO shortener.click_event (clicked_at, link_id, workspace_id, user_agent_id, referrer_id,"
        " place_id, ip)"
        " SELECT c.clicked_at, c.link_id, $workspace, c.user_agent_id, c.referrer_id, c.place_id, c.ip"
        " FROM given_click c",
        {{"workspace", INT4OID}});
    static KeptStatement into_pending("INSERT INTO shortener.click_pending (workspace_id, received_at, "
                                      "first_click, last_click, link_ids, clicked_at,"
                                      " user_agent_ids, referrer_ids, place_ids, visitors)"
                                      " VALUES ($workspace, pg_catalog.now(), $first, $last, $link_ids, "
                                      "$clicked_at, $user_agent_ids, $referrer_ids,"
                                      " $place_ids, $visitors)",
                                      {{"workspace", INT4OID},
                                       {"first", TIMESTAMPTZOID},
                                       {"last", TIMESTAMPTZOID},
                                       {"link_ids", INT8ARRAYOID},
                                       {"clicked_at", TIMESTAMPTZARRAYOID},
                                       {"user_agent_ids", INT4ARRAYOID},
                                       {"referrer_ids", INT4ARRAYOID},
                                       {"place_ids", INT4ARRAYOID},
                                       {"visitors", INT8ARRAYOID}});
    const Columns columns = describe(clicks, count, visits, salts);
    const Datum workspace = Int32GetDatum(clicks[0].workspace_id);
    GivenRows given("given_click", {{"clicked_at", TIMESTAMPTZOID},
                                    {"link_id", INT8OID},
                                    {"user_agent_id", INT4OID},
                                    {"referrer_id", INT4OID},
                                    {"place_id", INT4OID},
                                    {"ip", INETOID}});
    for (int i = 0; i < count; i++) {
        CHECK_FOR_INTERRUPTS();
        given.add({TimestampTzGetDatum(clicks[i].clicked_at), Int64GetDatum(clicks[i].link_id),
                   columns.user_agent_ids[i], columns.referrer_ids[i], columns.place_ids[i], columns.ips[i]});
    }
    into_events.run({{"workspace", workspace}});
    given.end();

    const auto [first, last] = std::minmax_element(
        clicks, clicks + count, [](const Click& a, const Click& b) { return a.clicked_at < b.clicked_at; });
    const OwnerSection writing = OwnerSection::to_write({"click_pending"});
    into_pending.run(
        {{"workspace", workspace},
         {"first", TimestampTzGetDatum(first->clicked_at)},
         {"last", TimestampTzGetDatum(last->clicked_at)},
         {"link_ids", array_from(count, INT8OID, [&](int i) { return Int64GetDatum(clicks[i].link_id); })},
         {"clicked_at", array_from(count, TIMESTAMPTZOID,
                                   [&](int i) { return TimestampTzGetDatum(clicks[i].clicked_at); })},
         {"user_agent_ids", array_of(columns.user_agent_ids, count, INT4OID)},
         {"referrer_ids", array_of(columns.referrer_ids, count, INT4OID)},
         {"place_ids", array_of(columns.place_ids, count, INT4OID)},
         {"visitors", array_of(columns.visitors, count, INT8OID)}});
    writing.end();
}

// Gives each click its workspace, 0 if its link does not exist. Without the workspaces every one is asked: an
// id that several have, as whoever may insert links can make one, is of none, because a guess would show a
// workspace the visitors of another.
void find_workspaces(Click* clicks, int count, const Elements& workspace_ids) {
    static KeptStatement find_anywhere(
        "SELECT l.id, w.id FROM shortener.workspace w CROSS JOIN LATERAL"
        " (SELECT k.id FROM shortener.link k WHERE k.workspace_id OPERATOR(pg_catalog.=) w.id"
        " AND k.id OPERATOR(pg_catalog.=) ANY ($ids) OFFSET 0) l ORDER BY l.id",
        {{"ids", INT8ARRAYOID}});
    static KeptStatement find("SELECT k.id FROM shortener.link k"
                              " WHERE k.workspace_id OPERATOR(pg_catalog.=) $workspace"
                              " AND k.id OPERATOR(pg_catalog.=) ANY ($ids) ORDER BY k.id",
                              {{"workspace", INT4OID}, {"ids", INT8ARRAYOID}});
    const bool are_given = workspace_ids.count >= 0;
    for (int i = 0; i < count; i++) {
        const int place = clicks[i].place;
        const int64 given = workspace_ids.is_null(place) ? 0 : DatumGetInt64(workspace_ids.values[place]);
        clicks[i].workspace_id = given == static_cast<int32>(given) ? static_cast<int32>(given) : 0;
    }
    std::sort(clicks, clicks + count, [](const Click& a, const Click& b) {
        return std::pair(a.workspace_id, a.link_id) < std::pair(b.workspace_id, b.link_id);
    });
    Datum* const ids = allocate<Datum>(count);
    for (int begin = 0, end; begin < count; begin = end) {
        const int32 workspace_id = clicks[begin].workspace_id;
        int distinct = 0;
        for (end = begin; end < count && clicks[end].workspace_id == workspace_id; end++)
            if (end == begin || clicks[end].link_id != clicks[end - 1].link_id)
                ids[distinct++] = Int64GetDatum(clicks[end].link_id);
        const Datum id_array = array_of(ids, distinct, INT8OID);
        const Rows found = are_given
                               ? find.run({{"workspace", Int32GetDatum(workspace_id)}, {"ids", id_array}})
                               : find_anywhere.run({{"ids", id_array}});
        const auto found_id = [&](uint64 row) { return found[row].required<int64>(1); };
        uint64 row = 0;
        for (int i = begin; i < end; i++) {
            while (row < found.count() && found_id(row) < clicks[i].link_id)
                row++;
            if (row == found.count() || found_id(row) != clicks[i].link_id)
                clicks[i].workspace_id = 0;
            else if (!are_given)
                clicks[i].workspace_id = row + 1 < found.count() && found_id(row + 1) == clicks[i].link_id
                                             ? 0
                                             : found[row].required<int32>(2);
        }
        found.release();
    }
}

// False if the batch was recorded before.
bool begin_batch(Datum id, int clicks, int unknown_links, int refused) {
    static KeptStatement statement(
        "INSERT INTO shortener.click_batch (id, received_at, clicks, unknown_links, refused)"
        " VALUES ($id, pg_catalog.now(), $clicks, $unknown, $refused) ON CONFLICT DO NOTHING",
        {{"id", UUIDOID}, {"clicks", INT4OID}, {"unknown", INT4OID}, {"refused", INT4OID}});
    return statement
               .run({{"id", id},
                     {"clicks", Int32GetDatum(clicks)},
                     {"unknown", Int32GetDatum(unknown_links)},
                     {"refused", Int32GetDatum(refused)}})
               .count() > 0;
}

void require_length(const Elements& argument, int count, const char* name) {
    if (argument.count >= 0 && argument.count != count)
        ereport(ERROR, (errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR),
                        errmsg("%s must have as many elements as link_ids", name),
                        errdetail("It has %d, and link_ids has %d.", argument.count, count)));
}

} // namespace

SHORTENER_FUNCTION(shortener_record_clicks) {
    require_install();
    if (PG_ARGISNULL(0) || PG_ARGISNULL(1) || PG_ARGISNULL(2))
        ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
                        errmsg("batch_id, link_ids and clicked_at must not be null")));
    SPI_connect();
    const Elements link_ids = array_argument(fcinfo, 1, INT8OID),
                   times = array_argument(fcinfo, 2, TIMESTAMPTZOID);
    const Visits visits{array_argument(fcinfo, 3, INETOID), array_argument(fcinfo, 4, TEXTOID),
                        array_argument(fcinfo, 5, TEXTOID)};
    const Elements workspace_ids = array_argument(fcinfo, 6, INT8OID);
    require_length(times, link_ids.count, "clicked_at");
    require_length(visits.ips, link_ids.count, "ips");
    require_length(visits.user_agents, link_ids.count, "user_agents");
    require_length(visits.referrers, link_ids.count, "referers");
    require_length(workspace_ids, link_ids.count, "workspace_ids");

    Click* const clicks = allocate<Click>(link_ids.count);
    Months months;
    const TimestampTz latest = GetCurrentTimestamp() + max_ahead;
    int count = 0, refused = 0;
    for (int i = 0; i < link_ids.count; i++) {
        CHECK_FOR_INTERRUPTS();
        if (times.is_null(i) || DatumGetTimestampTz(times.values[i]) > latest ||
            !months.has(DatumGetTimestampTz(times.values[i])))
            refused++;
        else if (!link_ids.is_null(i))
            clicks[count++] = {DatumGetInt64(link_ids.values[i]), DatumGetTimestampTz(times.values[i]), 0, i};
    }
    find_workspaces(clicks, count, workspace_ids);
    const int known = static_cast<int>(
        std::remove_if(clicks, clicks + count, [](const Click& click) { return click.workspace_id == 0; }) -
        clicks);
    const bool is_new = begin_batch(PG_GETARG_DATUM(0), known, link_ids.count - refused - known, refused);
    if (is_new) {
        const Salts salts(clicks, known);
        // In the order of the workspaces, in which all batches take their locks.
        std::sort(clicks, clicks + known, [](const Click& a, const Click& b) {
            return a.workspace_id != b.workspace_id ? a.workspace_id < b.workspace_id : a.place < b.place;
        });
        for (int begin = 0, end; begin < known; begin = end) {
            end = begin;
            while (end < known && clicks[end].workspace_id == clicks[begin].workspace_id)
                end++;
            record(clicks + begin, end - begin, visits, salts);
        }
    }
    SPI_finish();
    PG_RETURN_INT64(is_new ? known : 0);
}
