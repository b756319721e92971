// shorten_many: the same as shorten, a set at a time.

#include <algorithm>
#include <cstring>

#include "pg/guard.h"
#include "pg/install_check.h"
#include "pg/link_code.h"
#include "pg/link_url.h"
#include "pg/plans.h"
#include "pg/text.h"

extern "C" {
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"
}

using namespace shortener;

namespace {

// A URL of the call. Equal ones share one entry, of the first of them.
struct Entry {
    Digest digest;
    int position; // in the call
    int64 id;     // drawn for it, or −1
    Code code;
    bool done;
    bool created;
    bool ends_early; // its link is there, and expires before it should
};

bool digest_less(const Digest& a, const Digest& b) {
    return std::memcmp(a.bytes, b.bytes, digest_size) < 0;
}
bool digest_equal(const Digest& a, const Digest& b) {
    return std::memcmp(a.bytes, b.bytes, digest_size) == 0;
}

// The entry of a digest that a statement gave back; `entries` are in order of their digests.
Entry& entry_of(Datum value, Entry* entries, int count) {
    Digest digest;
    text_view(value).copy(reinterpret_cast<char*>(digest.bytes), digest_size);
    return *std::lower_bound(entries, entries + count, digest, [](const Entry& entry, const Digest& wanted) {
        return digest_less(entry.digest, wanted);
    });
}

Datum array_of(Datum* elements, int count, Oid type) {
    if (type == INT8OID)
        return PointerGetDatum(construct_array(elements, count, type, 8, FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
    return PointerGetDatum(construct_array(elements, count, type, -1, false, TYPALIGN_INT));
}

// The digests of the entries that `wanted` accepts.
template <typename Wanted> Datum digests(const Entry* entries, int count, int& chosen, Wanted&& wanted) {
    Datum* const elements = static_cast<Datum*>(palloc(sizeof(Datum) * count));
    chosen = 0;
    for (int i = 0; i < count; i++)
        if (wanted(entries[i]))
            elements[chosen++] = digest_datum(entries[i].digest);
    return array_of(elements, chosen, BYTEAOID);
}

void finish(Entry& entry, std::string_view code, bool created) {
    entry.code = Code::from(code);
    entry.done = true;
    entry.created = created;
}

// Takes the codes that a statement gave back as (url_digest, short_code).
void finish_from(const Rows& rows, Entry* entries, int count, bool created) {
    for (uint64 i = 0; i < rows.count(); i++)
        finish(entry_of(rows[i].required<Datum>(1), entries, count), rows[i].required<std::string_view>(2),
               created);
}

// Finishes the entries whose links are there already, after making those live longer that would end too
// early. The look-ups are fenced, here and below: the plan is kept, perhaps from when the table was empty,
// and must not read it whole when it has grown.
void find_known(const Workspace& workspace, Entry* entries, int count) {
    static KeptStatement find(
        "SELECT l.url_digest, l.short_code, l.expires_at"
        " FROM pg_catalog.unnest($digests) d (digest)"
        " CROSS JOIN LATERAL (SELECT k.url_digest, k.short_code, k.expires_at FROM shortener.link k"
        " WHERE k.workspace_id OPERATOR(pg_catalog.=) $workspace"
        " AND k.url_digest OPERATOR(pg_catalog.=) d.digest AND k.deleted_at IS NULL OFFSET 0) l",
        {{"workspace", INT4OID}, {"digests", BYTEAARRAYOID}});
    static KeptStatement extend(
        "UPDATE shortener.link SET expires_at = CASE WHEN pg_catalog.isfinite($expires_at) THEN $expires_at "
        "END"
        " WHERE workspace_id OPERATOR(pg_catalog.=) $workspace"
        " AND url_digest OPERATOR(pg_catalog.=) ANY ($digests) AND deleted_at IS NULL"
        " AND expires_at OPERATOR(pg_catalog.<) $expires_at RETURNING url_digest, short_code",
        {{"workspace", INT4OID}, {"digests", BYTEAARRAYOID}, {"expires_at", TIMESTAMPTZOID}});
    const Datum workspace_id = Int32GetDatum(workspace.id);
    int chosen;
    const Datum wanted = digests(entries, count, chosen, [](const Entry& entry) { return !entry.done; });
    const Rows found = find.run({{"workspace", workspace_id}, {"digests", wanted}});
    for (uint64 i = 0; i < found.count(); i++) {
        const Row row = found[i];
        Entry& entry = entry_of(row.required<Datum>(1), entries, count);
        entry.ends_early = row.get<TimestampTz>(3).value_or(DT_NOEND) < workspace.default_expiry;
        if (!entry.ends_early)
            finish(entry, row.required<std::string_view>(2), false);
    }
    const Datum early =
        digests(entries, count, chosen, [](const Entry& entry) { return !entry.done && entry.ends_early; });
    if (chosen == 0)
        return;
    finish_from(extend.run({{"workspace", workspace_id},
                            {"digests", early},
                            {"expires_at", TimestampTzGetDatum(workspace.default_expiry)}}),
                entries, count, false);
}

// Inserts a link for each entry that is not finished, in the order of the digests, so that two calls with the
// same URLs wait for each other instead of deadlocking.
void insert_unknown(const Workspace& workspace, const CheckedUrl* urls, Entry* entries, int count) {
    static KeptStatement statement(
        "INSERT INTO shortener.link (id, workspace_id, short_code, original_url, url_digest, "
        "redirect_status, expires_at) "
        "SELECT n.id, $workspace, n.code, n.url, n.digest, $redirect_status,"
        " CASE WHEN pg_catalog.isfinite($expires_at) THEN $expires_at END"
        " FROM ROWS FROM (pg_catalog.unnest($ids), pg_catalog.unnest($codes), pg_catalog.unnest($urls),"
        "  pg_catalog.unnest($digests)) n (id, code, url, digest) "
        "WHERE NOT EXISTS (SELECT FROM shortener.reserved_code r"
        " WHERE r.code OPERATOR(pg_catalog.=) pg_catalog.lower(n.code COLLATE pg_catalog.\"C\") OFFSET 0)"
        " AND NOT EXISTS (SELECT FROM shortener.retired_code r WHERE r.workspace_id OPERATOR(pg_catalog.=) "
        "$workspace"
        " AND r.short_code OPERATOR(pg_catalog.=) n.code OFFSET 0) "
        "ORDER BY n.digest ON CONFLICT DO NOTHING RETURNING url_digest, short_code",
        {{"workspace", INT4OID},
         {"ids", INT8ARRAYOID},
         {"codes", TEXTARRAYOID},
         {"urls", TEXTARRAYOID},
         {"digests", BYTEAARRAYOID},
         {"redirect_status", INT2OID},
         {"expires_at", TIMESTAMPTZOID}});
    const Size size = sizeof(Datum) * count;
    Datum* const ids = static_cast<Datum*>(palloc(size));
    Datum* const codes = static_cast<Datum*>(palloc(size));
    Datum* const hrefs = static_cast<Datum*>(palloc(size));
    Datum* const keys = static_cast<Datum*>(palloc(size));
    int chosen = 0;
    for (int i = 0; i < count; i++)
        if (Entry& entry = entries[i]; !entry.done) {
            entry.id = take_id(workspace.code_style);
            ids[chosen] = Int64GetDatum(entry.id);
            codes[chosen] = text_datum(code_of(workspace, entry.id).view());
            hrefs[chosen] = text_datum(urls[entry.position].href);
            keys[chosen] = digest_datum(entry.digest);
            chosen++;
        }
    if (chosen == 0)
        return;
    finish_from(statement.run({{"workspace", Int32GetDatum(workspace.id)},
                               {"ids", array_of(ids, chosen, INT8OID)},
                               {"codes", array_of(codes, chosen, TEXTOID)},
                               {"urls", array_of(hrefs, chosen, TEXTOID)},
                               {"digests", array_of(keys, chosen, BYTEAOID)},
                               {"redirect_status", Int16GetDatum(workspace.redirect_status)},
                               {"expires_at", TimestampTzGetDatum(workspace.default_expiry)}}),
                entries, count, true);
}

// Entries whose link another session made meanwhile have a number too many; those that are still without a
// link met a taken code, and their number is of no use.
void return_unused_ids(const Workspace& workspace, Entry* entries, int count) {
    for (int i = 0; i < count; i++)
        if (Entry& entry = entries[i]; entry.id >= 0) {
            if (entry.done && !entry.created)
                return_id(workspace.code_style, entry.id);
            entry.id = -1;
        }
}

void shorten_entries(const Workspace& workspace, const CheckedUrl* urls, Entry* entries, int count) {
    const auto is_done = [](const Entry& entry) { return entry.done; };
    for (int attempt = 1;; attempt++) {
        if (attempt > max_attempts)
            raise_no_free_code();
        find_known(workspace, entries, count);
        return_unused_ids(workspace, entries, count);
        insert_unknown(workspace, urls, entries, count);
        if (std::all_of(entries, entries + count, is_done))
            return;
        CHECK_FOR_INTERRUPTS();
    }
}

// One entry for each different URL that is not refused, in the order of the digests; `entry_of_position`
// tells for each position whose entry answers it.
int make_entries(const Workspace& workspace, const CheckedUrl* urls, int count, Entry* entries,
                 int* entry_of_position) {
    int accepted = 0;
    for (int i = 0; i < count; i++)
        if (!urls[i].refused()) {
            Entry& entry = entries[accepted++] = Entry{};
            entry.digest = digest_of(workspace, urls[i]);
            entry.position = i;
            entry.id = -1;
        }
    std::sort(entries, entries + accepted, [](const Entry& a, const Entry& b) {
        const int order = std::memcmp(a.digest.bytes, b.digest.bytes, digest_size);
        return order != 0 ? order < 0 : a.position < b.position;
    });
    int distinct = 0;
    for (int i = 0; i < accepted; i++) {
        if (distinct == 0 || !digest_equal(entries[distinct - 1].digest, entries[i].digest))
            entries[distinct++] = entries[i];
        entry_of_position[entries[i].position] = distinct - 1;
    }
    return distinct;
}

} // namespace

SHORTENER_FUNCTION(shortener_shorten_many) {
    require_install();
    InitMaterializedSRF(fcinfo, 0);
    ReturnSetInfo* const result = reinterpret_cast<ReturnSetInfo*>(fcinfo->resultinfo);
    if (PG_ARGISNULL(0))
        return 0;
    const std::string_view slug = PG_ARGISNULL(1) ? std::string_view() : text_argument(fcinfo, 1);
    Datum* given;
    bool* nulls;
    int count;
    deconstruct_array(PG_GETARG_ARRAYTYPE_P(0), TEXTOID, -1, false, TYPALIGN_INT, &given, &nulls, &count);

    SPI_connect();
    CheckedUrl* const urls =
        static_cast<CheckedUrl*>(palloc_extended(sizeof(CheckedUrl) * (count + 1), MCXT_ALLOC_HUGE));
    for (int i = 0; i < count; i++) {
        urls[i] = CheckedUrl{};
        if (nulls[i])
            urls[i].link_error = LinkError::null_url;
        else
            urls[i] = check_url(text_view(given[i]));
    }
    check_hosts(urls, count);
    const Workspace workspace = find_workspace(slug);

    Entry* const entries = static_cast<Entry*>(palloc_extended(sizeof(Entry) * (count + 1), MCXT_ALLOC_HUGE));
    int* const entry_of_position = static_cast<int*>(palloc(sizeof(int) * (count + 1)));
    const int distinct = make_entries(workspace, urls, count, entries, entry_of_position);
    if (distinct > 0)
        shorten_entries(workspace, urls, entries, distinct);

    for (int i = 0; i < count; i++) {
        const bool refused = urls[i].refused();
        const Entry* const entry = refused ? nullptr : &entries[entry_of_position[i]];
        Datum values[] = {Int64GetDatum(int64{i} + 1), given[i], refused ? 0 : text_datum(entry->code.view()),
                          BoolGetDatum(!refused && entry->created && entry->position == i),
                          refused ? CStringGetTextDatum(refusal_message(
                                        urls[i], nulls[i] ? std::string_view() : text_view(given[i])))
                                  : 0};
        bool row_nulls[] = {false, nulls[i], refused, refused, !refused};
        tuplestore_putvalues(result->setResult, result->setDesc, values, row_nulls);
    }
    SPI_finish();
    return 0;
}
