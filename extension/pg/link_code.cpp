#include "pg/link_code.h"

#include "core/base62.h"
#include "core/scramble.h"

#include "pg/arrays.h"
#include "pg/errors.h"
#include "pg/guard.h"
#include "pg/plans.h"
#include "pg/session.h"
#include "pg/snowflake.h"
#include "pg/used_codes.h"

extern "C" {
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "commands/sequence.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"
}

namespace shortener {

namespace {

// Numbers drawn from the sequence of link.id that nobody has seen.
struct SpareIds {
    static constexpr int capacity = 64;
    Oid sequence;
    int64 ids[capacity];
    int count;
};

SpareIds spare_ids;

// Numbers spent by the current transaction, if it is serializable. Such a transaction fails by design, its
// results are void until it commits, and it is tried again: the numbers go back on offer. After any other
// rollback a number stays burnt, because a client may have shown its code.
struct SpentIds {
    int64 ids[SpareIds::capacity];
    int count;
};

SpentIds spent_ids;

void end_of_transaction(XactEvent event, void*) {
    if (event == XACT_EVENT_ABORT)
        while (spent_ids.count > 0 && spare_ids.count < SpareIds::capacity)
            spare_ids.ids[spare_ids.count++] = spent_ids.ids[--spent_ids.count];
    if (event == XACT_EVENT_ABORT || event == XACT_EVENT_COMMIT || event == XACT_EVENT_PREPARE)
        spent_ids.count = 0;
}

void remember_spent(int64 id) {
    static bool registered = false;
    if (!registered) {
        RegisterXactCallback(end_of_transaction, nullptr);
        registered = true;
    }
    if (IsolationIsSerializable() && spent_ids.count < SpareIds::capacity)
        spent_ids.ids[spent_ids.count++] = id;
}

Oid id_sequence() {
    const Oid sequence = get_relname_relid("link_id_seq", get_namespace_oid("shortener", false));
    if (!OidIsValid(sequence))
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE),
                        errmsg("relation \"shortener.link_id_seq\" does not exist"),
                        errhint("CALL shortener.install();")));
    if (spare_ids.sequence != sequence) {
        spare_ids.sequence = sequence;
        spare_ids.count = 0;
    }
    return sequence;
}

} // namespace

Datum code_array(const Code* codes, int count) {
    return array_from(count, TEXTOID, [&](int i) { return text_datum(codes[i].view()); });
}

Datum id_array(const int64* ids, int count) {
    return array_from(count, INT8OID, [&](int i) { return Int64GetDatum(ids[i]); });
}

Code Code::from(std::string_view text) {
    Code code;
    code.length = text.copy(code.characters, sizeof code.characters);
    return code;
}

Code code_of(const Workspace& workspace, int64 id) {
    const std::int64_t number =
        workspace.code_style == CodeStyle::scrambled ? scramble(SipKey::from_bytes(workspace.key), id) : id;
    char digits[base62_max_length];
    return Code::from({digits, base62_encode(number, digits)});
}

std::optional<int64> number_of(const Workspace& workspace, std::string_view code) {
    std::int64_t number;
    if (base62_decode(code, number) != Base62Error::none || number < scramble_first)
        return std::nullopt;
    return unscramble(SipKey::from_bytes(workspace.key), number);
}

int64 offer_id(CodeStyle style) {
    const int64 id = take_id(style);
    return_id(style, id);
    return id;
}

void spend_id(CodeStyle style, int64 id) {
    if (style == CodeStyle::snowflake)
        return;
    for (int i = spare_ids.count; i-- > 0;)
        if (spare_ids.ids[i] == id) {
            spare_ids.ids[i] = spare_ids.ids[--spare_ids.count];
            remember_spent(id);
            return;
        }
}

int64 take_id(CodeStyle style) {
    if (style == CodeStyle::snowflake)
        return next_snowflake();
    const Oid sequence = id_sequence();
    return spare_ids.count > 0 ? spare_ids.ids[--spare_ids.count] : nextval_internal(sequence, true);
}

void return_id(CodeStyle style, int64 id) {
    if (style != CodeStyle::snowflake && spare_ids.count < SpareIds::capacity)
        spare_ids.ids[spare_ids.count++] = id;
}

void draw_codes(const Workspace& workspace, Code* codes, int64* ids, int count) {
    bool* const used = static_cast<bool*>(palloc(count));
    memset(used, true, count);
    for (int attempt = 1; attempt <= max_attempts; attempt++) {
        for (int i = 0; i < count; i++)
            if (used[i]) {
                CHECK_FOR_INTERRUPTS();
                ids[i] = take_id(workspace.code_style);
                codes[i] = code_of(workspace, ids[i]);
                used[i] = false;
            }
        if (!find_used_codes(workspace, codes, ids, count, used))
            return;
        CHECK_FOR_INTERRUPTS();
    }
    raise_no_free_code();
}

bool is_any_code_taken(const Workspace& workspace, const Code* codes, int count) {
    static KeptStatement statement(
        "SELECT FROM pg_catalog.unnest($codes) c (code) CROSS JOIN LATERAL (SELECT FROM shortener.link l"
        " WHERE l.workspace_id OPERATOR(pg_catalog.=) $workspace AND l.short_code OPERATOR(pg_catalog.=) "
        "c.code OFFSET 0)"
        " t LIMIT 1",
        {{"workspace", INT4OID}, {"codes", TEXTARRAYOID}});
    const Rows rows =
        statement.run({{"workspace", Int32GetDatum(workspace.id)}, {"codes", code_array(codes, count)}});
    const bool is_taken = !rows.empty();
    rows.release();
    return is_taken;
}

bool is_any_id_taken(const Workspace& workspace, const int64* ids, int count) {
    static KeptStatement statement(
        "SELECT FROM shortener.link WHERE workspace_id OPERATOR(pg_catalog.=) $workspace"
        " AND id OPERATOR(pg_catalog.=) ANY ($ids) LIMIT 1",
        {{"workspace", INT4OID}, {"ids", INT8ARRAYOID}});
    const Rows rows =
        statement.run({{"workspace", Int32GetDatum(workspace.id)}, {"ids", id_array(ids, count)}});
    const bool is_taken = !rows.empty();
    rows.release();
    return is_taken;
}

void raise_no_free_code() {
    raise(LinkError::no_free_code, psprintf("%d", max_attempts));
}

// A key that only reads cannot make a link live longer, either.
void raise_hidden(std::string_view link) {
    require_scope("links:write");
    raise(LinkError::hidden_link, link);
}

} // namespace shortener
