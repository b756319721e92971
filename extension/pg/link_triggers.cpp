// Triggers: what must hold for every change of a link, whoever makes it, and what caches must hear of.

#include "core/siphash.h"

#include "pg/as_owner.h"
#include "pg/guard.h"
#include "pg/plans.h"
#include "pg/text.h"

extern "C" {
#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "commands/async.h"
#include "commands/trigger.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/rel.h"
#include "utils/timestamp.h"
}

using namespace shortener;

namespace {

constexpr const char* channel = "shortener";
constexpr const char* flush = "flush";

// More than this many links changed by one statement: forget everything. 256 tags are 4,352 of the 8,000
// bytes that a notification may have.
constexpr uint64 max_tags = 256;

TriggerData* trigger_data(FunctionCallInfo fcinfo) {
    if (!CALLED_AS_TRIGGER(fcinfo))
        ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
                        errmsg("function was not called by trigger manager")));
    return reinterpret_cast<TriggerData*>(fcinfo->context);
}

// The data of a trigger of link that fires as install() sets it. Anybody may attach the functions to a table of their
// own, or otherwise, where rows and columns are not what they read.
TriggerData* link_trigger_data(FunctionCallInfo fcinfo, bool (*as_meant)(TriggerEvent)) {
    TriggerData* const data = trigger_data(fcinfo);
    const Relation relation = data->tg_relation;
    if (!as_meant(data->tg_event) || RelationGetNamespace(relation) != get_namespace_oid("shortener", true) ||
        std::string_view(RelationGetRelationName(relation)) != "link")
        ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
                        errmsg("trigger \"%s\" is not one of shortener.link", data->tg_trigger->tgname),
                        errhint("CALL shortener.install();")));
    return data;
}

SipKey cache_key() {
    static KeptStatement statement("SELECT cache_key FROM shortener.installation", {});
    statement.run();
    bool is_null = true;
    const Datum value = SPI_processed == 1 ? result_value(0, 1, is_null) : 0;
    if (is_null)
        elog(ERROR, "shortener.installation has no row");
    unsigned char bytes[16] = {};
    const std::string_view stored = text_view(value);
    stored.copy(reinterpret_cast<char*>(bytes), sizeof bytes);
    return SipKey::from_bytes(bytes);
}

// Tells caches of the (workspace_id, short_code) rows of the last result.
void notify_changed() {
    const uint64 count = SPI_processed;
    SPITupleTable* const changed = SPI_tuptable;
    if (count == 0)
        return;
    if (count > max_tags) {
        Async_Notify(channel, flush);
        return;
    }
    const SipKey key = cache_key();
    StringInfoData payload;
    initStringInfo(&payload);
    for (uint64 row = 0; row < count; row++) {
        bool is_null;
        const int32 workspace_id = DatumGetInt32(SPI_getbinval(changed->vals[row], changed->tupdesc, 1, &is_null));
        const std::string_view code = text_view(SPI_getbinval(changed->vals[row], changed->tupdesc, 2, &is_null));
        appendStringInfo(&payload, "%s%016llx", row ? " " : "",
                         static_cast<unsigned long long>(code_tag(key, workspace_id, code)));
    }
    Async_Notify(channel, payload.data);
}

// A reserved or retired code is refused after the insert, by a look at what is committed now: while the insert
// waited on the unique index, a cleanup may have retired the very code, unseen by an older snapshot.
void after_insert() {
    static KeptStatement refused(
        "SELECT n.short_code, r.reserved FROM new_link n CROSS JOIN LATERAL ("
        " SELECT true AS reserved FROM shortener.reserved_code"
        "  WHERE code OPERATOR(pg_catalog.=) pg_catalog.lower(n.short_code)"
        " UNION ALL"
        " SELECT false FROM shortener.retired_code"
        "  WHERE workspace_id OPERATOR(pg_catalog.=) n.workspace_id"
        "    AND short_code OPERATOR(pg_catalog.=) n.short_code"
        " OFFSET 0) r LIMIT 1",
        {});
    refused.run_latest();
    if (SPI_processed > 0) {
        bool is_null;
        const char* code = TextDatumGetCString(result_value(0, 1, is_null));
        if (DatumGetBool(result_value(0, 2, is_null)))
            ereport(ERROR, (errcode(ERRCODE_RESERVED_NAME), errmsg("short code \"%s\" is reserved", code),
                            errdetail("Reserved words are in shortener.reserved_code."),
                            errhint("Choose another alias.")));
        ereport(ERROR, (errcode(ERRCODE_UNIQUE_VIOLATION), errmsg("short code \"%s\" was used before", code),
                        errdetail("The code of a removed link is never given to another one."),
                        errhint("Choose another alias.")));
    }

    // A cache may hold "unknown" for an alias that somebody tried before it was made. Nobody knew a generated
    // code before, and a link with a digest has one.
    static KeptStatement own_links(
        "SELECT workspace_id, short_code FROM new_link WHERE url_digest IS NULL LIMIT 257", {});
    own_links.run();
    notify_changed();
}

// A link stands twice among its old and new states, each once if what it answers has changed. Not a join: the plan
// is kept from the first update, mostly of one link, and a loop over the squares of a later one of many.
void after_update() {
    static KeptStatement changed(
        "SELECT DISTINCT workspace_id, short_code FROM ("
        " SELECT workspace_id, short_code FROM ("
        "  SELECT workspace_id, short_code, original_url, redirect_status, is_active, deleted_at IS NULL AS is_there,"
        "   expires_at FROM new_link"
        "  UNION ALL"
        "  SELECT workspace_id, short_code, original_url, redirect_status, is_active, deleted_at IS NULL,"
        "   expires_at FROM old_link) state"
        " GROUP BY workspace_id, short_code, original_url, redirect_status, is_active, is_there, expires_at"
        " HAVING pg_catalog.count(*) OPERATOR(pg_catalog.=) 1) changed "
        "LIMIT 257",
        {});
    changed.run();
    notify_changed();
}

void after_delete() {
    // Somebody may have retired the code of a link by hand. Nobody can do so twice at once, since the link is locked;
    // ON CONFLICT would take twice as long.
    static KeptStatement retire(
        "INSERT INTO shortener.retired_code (workspace_id, short_code)"
        " SELECT o.workspace_id, o.short_code FROM old_link o WHERE NOT EXISTS (SELECT FROM shortener.retired_code r"
        " WHERE r.workspace_id OPERATOR(pg_catalog.=) o.workspace_id"
        " AND r.short_code OPERATOR(pg_catalog.=) o.short_code OFFSET 0)",
        {});
    retire.run();
    // Whoever was gone before is gone now: a cleanup of expired links tells nobody.
    static KeptStatement were_active(
        "SELECT workspace_id, short_code FROM old_link"
        " WHERE is_active AND deleted_at IS NULL"
        " AND (expires_at IS NULL OR expires_at OPERATOR(pg_catalog.>) pg_catalog.statement_timestamp()) LIMIT 257",
        {});
    were_active.run();
    notify_changed();
}

bool changes(const TriggerData* data, int column) {
    const TupleDesc description = RelationGetDescr(data->tg_relation);
    bool old_null, new_null;
    const Datum before = heap_getattr(data->tg_trigtuple, column, description, &old_null);
    const Datum after = heap_getattr(data->tg_newtuple, column, description, &new_null);
    const Form_pg_attribute attribute = TupleDescAttr(description, column - 1);
    return old_null != new_null ||
           (!old_null && !datum_image_eq(before, after, attribute->attbyval, attribute->attlen));
}

} // namespace

SHORTENER_FUNCTION(shortener_link_changed) {
    TriggerData* const data = link_trigger_data(
        fcinfo, [](TriggerEvent event) { return TRIGGER_FIRED_AFTER(event) && TRIGGER_FIRED_FOR_STATEMENT(event); });
    SPI_connect();
    SPI_register_trigger_data(data);
    const AsOwner owner(data->tg_relation->rd_rel->relowner); // who may change links need not read the cache key
    if (TRIGGER_FIRED_BY_INSERT(data->tg_event))
        after_insert();
    else if (TRIGGER_FIRED_BY_UPDATE(data->tg_event))
        after_update();
    else if (TRIGGER_FIRED_BY_DELETE(data->tg_event))
        after_delete();
    owner.end();
    SPI_finish();
    PG_RETURN_POINTER(nullptr);
}

SHORTENER_FUNCTION(shortener_link_touched) {
    TriggerData* const data = link_trigger_data(fcinfo, [](TriggerEvent event) {
        return TRIGGER_FIRED_BEFORE(event) && TRIGGER_FIRED_FOR_ROW(event) && TRIGGER_FIRED_BY_UPDATE(event);
    });
    const TupleDesc description = RelationGetDescr(data->tg_relation);
    for (const char* name : {"workspace_id", "id", "short_code"})
        if (changes(data, SPI_fnumber(description, name)))
            ereport(ERROR, (errcode(ERRCODE_INTEGRITY_CONSTRAINT_VIOLATION),
                            errmsg("%s of a link cannot be changed", name),
                            errdetail("A published code keeps its meaning."),
                            errhint("Delete the link and create another.")));
    int column = SPI_fnumber(description, "updated_at");
    Datum now = TimestampTzGetDatum(GetCurrentTransactionStartTimestamp());
    bool is_null = false;
    PG_RETURN_POINTER(heap_modify_tuple_by_cols(data->tg_newtuple, description, 1, &column, &now, &is_null));
}

SHORTENER_FUNCTION(shortener_flush_caches) {
    trigger_data(fcinfo);
    Async_Notify(channel, flush);
    PG_RETURN_POINTER(nullptr);
}
