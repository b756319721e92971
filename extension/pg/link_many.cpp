// shorten_many: the same as shorten, a set at a time.

#include <algorithm>
#include <cstring>

#include "pg/accepted_url.h"
#include "pg/arrays.h"
#include "pg/guard.h"
#include "pg/installation.h"
#include "pg/link_code.h"
#include "pg/link_url.h"
#include "pg/plans.h"
#include "pg/session.h"
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

bool digest_equal(const Digest& a, const Digest& b) {
    return std::memcmp(a.bytes, b.bytes, digest_size) == 0;
}

// The entries that have no link yet, and their digests for a statement; a row of its result tells whose it is
// by the place there.
struct Pending {
    Entry** entries;
    int count = 0;
    Datum digests;

    template <typename Wanted> Pending(Entry* all, int all_count, Wanted&& wanted) {
        entries = static_cast<Entry**>(palloc(sizeof(Entry*) * (all_count + 1)));
        Datum* const elements = static_cast<Datum*>(palloc(sizeof(Datum) * (all_count + 1)));
        for (int i = 0; i < all_count; i++)
            if (!all[i].done && wanted(all[i])) {
                elements[count] = digest_datum(all[i].digest);
                entries[count++] = &all[i];
            }
        digests = array_of(elements, count, BYTEAOID);
    }
    Entry& at(int64 ordinal) const { return *entries[ordinal - 1]; }
};

void finish(Entry& entry, std::string_view code, bool created) {
    entry.code = Code::from(code);
    entry.done = true;
    entry.created = created;
}

// Finishes the entries whose links are there already, but for those whose links would end too early: they are
// made to live longer, and found the next time. The look-ups are fenced, here and below: the plan is kept,
// perhaps from when the table was empty, and must not read it whole when it has grown.
void find_known(const Workspace& workspace, Entry* entries, int count) {
    static KeptStatement find(
        "SELECT d.ordinal, l.short_code, l.expires_at FROM pg_catalog.unnest($digests) WITH ORDINALITY d "
        "(digest, ordinal)"
        " CROSS JOIN LATERAL (SELECT k.short_code, k.expires_at FROM shortener.link k"
        " WHERE k.workspace_id OPERATOR(pg_catalog.=) $workspace"
        " AND k.url_digest OPERATOR(pg_catalog.=) d.digest AND k.deleted_at IS NULL OFFSET 0) l",
        {{"workspace", INT4OID}, {"digests", BYTEAARRAYOID}});
    static KeptStatement extend(
        "UPDATE shortener.link SET expires_at = CASE WHEN pg_catalog.isfinite($expires_at) THEN $expires_at "
        "END"
        " WHERE workspace_id OPERATOR(pg_catalog.=) $workspace"
        " AND url_digest OPERATOR(pg_catalog.=) ANY ($digests) AND deleted_at IS NULL"
        " AND expires_at OPERATOR(pg_catalog.<) $expires_at",
        {{"workspace", INT4OID}, {"digests", BYTEAARRAYOID}, {"expires_at", TIMESTAMPTZOID}});
    const Datum workspace_id = Int32GetDatum(workspace.id);
    const TimestampTz default_expiry = workspace.default_expiry();
    const Pending pending(entries, count, [](const Entry&) { return true; });
    for (int i = 0; i < count; i++)
        entries[i].ends_early = false;
    const Rows found = find.run({{"workspace", workspace_id}, {"digests", pending.digests}});
    for (uint64 i = 0; i < found.count(); i++) {
        Entry& entry = pending.at(found[i].required<int64>(1));
        entry.ends_early = found[i].get<TimestampTz>(3).value_or(DT_NOEND) < default_expiry;
        if (!entry.ends_early)
            finish(entry, found[i].required<std::string_view>(2), false);
    }
    const Pending early(entries, count, [](const Entry& entry) { return entry.ends_early; });
    if (early.count > 0)
        extend.run({{"workspace", workspace_id},
                    {"digests", early.digests},
                    {"expires_at", TimestampTzGetDatum(default_expiry)}});
}

// Inserts a link for each entry that has none, in the order of the digests, so that two calls with the same
// URLs wait for each other instead of deadlocking.
void insert_unknown(const Workspace& workspace, const CheckedUrl* urls, Entry* entries, int count) {
    static KeptStatement statement(
        "INSERT INTO shortener.link (id, workspace_id, short_code, original_url, url_digest, "
        "redirect_status, expires_at, created_by) "
        "SELECT n.id, $workspace, n.code, n.url, n.digest, $redirect_status,"
        " CASE WHEN pg_catalog.isfinite($expires_at) THEN $expires_at END, $created_by"
        " FROM ROWS FROM (pg_catalog.unnest($ids), pg_catalog.unnest($codes), pg_catalog.unnest($urls),"
        "  pg_catalog.unnest($digests)) WITH ORDINALITY n (id, code, url, digest, ordinal) "
        "ORDER BY n.ordinal ON CONFLICT DO NOTHING RETURNING id, short_code",
        {{"workspace", INT4OID},
         {"ids", INT8ARRAYOID},
         {"codes", TEXTARRAYOID},
         {"urls", TEXTARRAYOID},
         {"digests", BYTEAARRAYOID},
         {"redirect_status", INT2OID},
         {"expires_at", TIMESTAMPTZOID},
         {"created_by", TEXTOID}});
    const Pending pending(entries, count, [](const Entry& entry) { return !entry.ends_early; });
    if (pending.count == 0)
        return;
    const Size size = sizeof(Datum) * pending.count;
    Datum* const ids = static_cast<Datum*>(palloc(size));
    Datum* const codes = static_cast<Datum*>(palloc(size));
    Datum* const hrefs = static_cast<Datum*>(palloc(size));
    AcceptedUrl* const accepted = static_cast<AcceptedUrl*>(palloc(sizeof(AcceptedUrl) * pending.count));
    int64* const drawn_ids = static_cast<int64*>(palloc(sizeof(int64) * pending.count));
    Code* const drawn_codes = static_cast<Code*>(palloc(sizeof(Code) * pending.count));
    draw_codes(workspace, drawn_codes, drawn_ids, pending.count);
    for (int i = 0; i < pending.count; i++) {
        Entry& entry = *pending.entries[i];
        entry.id = drawn_ids[i];
        entry.code = drawn_codes[i];
        ids[i] = Int64GetDatum(entry.id);
        codes[i] = text_datum(entry.code.view());
        hrefs[i] = text_datum(urls[entry.position].href);
        accepted[i] = {urls[entry.position].href, entry.digest, unguessable(workspace, entry.code)};
    }
    Rows made(nullptr, 0);
    store_accepted({workspace.id, accepted, pending.count}, [&] {
        made = statement.run({{"workspace", Int32GetDatum(workspace.id)},
                              {"ids", array_of(ids, pending.count, INT8OID)},
                              {"codes", array_of(codes, pending.count, TEXTOID)},
                              {"urls", array_of(hrefs, pending.count, TEXTOID)},
                              {"digests", pending.digests},
                              {"redirect_status", Int16GetDatum(workspace.redirect_status)},
                              {"expires_at", TimestampTzGetDatum(workspace.default_expiry())},
                              {"created_by", creating_user()}});
    });
    // Rows come in the order of the insert, less those that met another.
    int place = 0;
    for (uint64 i = 0; i < made.count(); i++) {
        const int64 id = made[i].required<int64>(1);
        while (place < pending.count && pending.entries[place]->id != id)
            place++;
        if (place == pending.count)
            ereport(ERROR, (errcode(ERRCODE_TRIGGERED_ACTION_EXCEPTION),
                            errmsg("column \"id\" of a new link was changed"),
                            errhint("A trigger on shortener.link may have set it.")));
        finish(*pending.entries[place], made[i].required<std::string_view>(2), true);
    }
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

// Whether what the last insert proposed, in vain, was taken as anybody can see.
bool met_taken_links(const Workspace& workspace, const Entry* entries, int count) {
    Code* const codes = static_cast<Code*>(palloc(sizeof(Code) * (count + 1)));
    int64* const ids = static_cast<int64*>(palloc(sizeof(int64) * (count + 1)));
    int chosen = 0;
    for (int i = 0; i < count; i++)
        if (!entries[i].done && entries[i].code.length > 0) {
            codes[chosen] = entries[i].code;
            ids[chosen++] = entries[i].id;
        }
    return chosen > 0 &&
           (is_any_code_taken(workspace, codes, chosen) || is_any_id_taken(workspace, ids, chosen));
}

void shorten_entries(const Workspace& workspace, const CheckedUrl* urls, Entry* entries, int count) {
    const auto is_done = [](const Entry& entry) { return entry.done; };
    const auto undone = [&] { return std::find_if_not(entries, entries + count, is_done); };
    std::ptrdiff_t done = 0;
    for (int attempt = 1, hidden = 0; attempt <= max_attempts; attempt++) {
        find_known(workspace, entries, count);
        return_unused_ids(workspace, entries, count);
        insert_unknown(workspace, urls, entries, count);
        if (undone() == entries + count)
            return;
        CHECK_FOR_INTERRUPTS();
        const std::ptrdiff_t now_done = std::count_if(entries, entries + count, is_done);
        if (now_done == done && !met_taken_links(workspace, entries, count) &&
            ++hidden == max_hidden_attempts)
            raise_hidden(urls[undone()->position].href);
        done = now_done;
    }
    raise_no_free_code();
}

// One entry for each different URL that is not refused, in the order of the digests; `entry_of_position`
// tells for each position whose entry answers it.
int make_entries(const CheckedUrl* urls, int count, Entry* entries, int* entry_of_position) {
    int accepted = 0;
    for (int i = 0; i < count; i++)
        if (!urls[i].refused()) {
            Entry& entry = entries[accepted++] = Entry{};
            entry.digest = urls[i].digest;
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
    const Workspace workspace = find_workspace(slug);
    CheckedUrl* const urls =
        static_cast<CheckedUrl*>(palloc_extended(sizeof(CheckedUrl) * (count + 1), MCXT_ALLOC_HUGE));
    for (int i = 0; i < count; i++) {
        urls[i] = CheckedUrl{};
        if (nulls[i])
            urls[i].link_error = LinkError::null_url;
        else
            urls[i] = check_url(workspace, text_view(given[i]));
        CHECK_FOR_INTERRUPTS();
    }
    check_hosts(urls, count);

    Entry* const entries = static_cast<Entry*>(palloc_extended(sizeof(Entry) * (count + 1), MCXT_ALLOC_HUGE));
    int* const entry_of_position = static_cast<int*>(palloc(sizeof(int) * (count + 1)));
    const int distinct = make_entries(urls, count, entries, entry_of_position);
    if (distinct > 0)
        shorten_entries(workspace, urls, entries, distinct);

    const MemoryContext row =
        AllocSetContextCreate(CurrentMemoryContext, "shortener row", ALLOCSET_SMALL_SIZES);
    for (int i = 0; i < count; i++) {
        CHECK_FOR_INTERRUPTS();
        const MemoryContext caller = MemoryContextSwitchTo(row);
        const bool refused = urls[i].refused();
        const Entry* const entry = refused ? nullptr : &entries[entry_of_position[i]];
        Datum values[] = {Int64GetDatum(int64{i} + 1), given[i], refused ? 0 : text_datum(entry->code.view()),
                          BoolGetDatum(!refused && entry->created && entry->position == i),
                          refused ? CStringGetTextDatum(refusal_message(
                                        urls[i], nulls[i] ? std::string_view() : text_view(given[i])))
                                  : 0};
        bool row_nulls[] = {false, nulls[i], refused, refused, !refused};
        tuplestore_putvalues(result->setResult, result->setDesc, values, row_nulls);
        MemoryContextSwitchTo(caller);
        MemoryContextReset(row);
    }
    SPI_finish();
    return 0;
}
