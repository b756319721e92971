// Triggers: what must hold for every change of a link, whoever makes it, and what caches must hear of.
//
// They run with the rights of whoever changes links, read the changed rows from the tuplestores that the executor hands
// them, never by name, and name tables only in an OwnerSection.

#include <iterator>

#include "core/code.h"
#include "core/siphash.h"

#include "pg/guard.h"
#include "pg/owner_section.h"
#include "pg/plans.h"
#include "pg/text.h"

extern "C" {
#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "commands/async.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "executor/tuptable.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"
}

using namespace shortener;

namespace {

constexpr Datum no_row = 0; // what a trigger after the fact returns

constexpr const char* channel = "shortener";
constexpr const char* flush = "flush";

// More than this many links changed by one statement: forget everything. 256 tags are 4,352 of the 8,000
// bytes that a notification may have.
constexpr int max_tags = 256;

// Rows that are looked up together.
constexpr int batch_size = 1000;

// The columns of link that triggers read.
enum Column {
    workspace_id,
    id,
    short_code,
    original_url,
    url_digest,
    redirect_status,
    is_active,
    deleted_at,
    expires_at,
    column_count
};
constexpr struct {
    const char* name;
    Oid type;
} columns[] = {
    {"workspace_id", INT4OID}, {"id", INT8OID},           {"short_code", TEXTOID},
    {"original_url", TEXTOID}, {"url_digest", BYTEAOID},  {"redirect_status", INT2OID},
    {"is_active", BOOLOID},    {"deleted_at", TIMESTAMPTZOID}, {"expires_at", TIMESTAMPTZOID},
};
static_assert(std::size(columns) == column_count);

// The number of a column in the table, whose owner may have changed it.
AttrNumber column_number(Relation relation, const char* name, Oid type) {
    const TupleDesc description = RelationGetDescr(relation);
    for (int i = 0; i < description->natts; i++) {
        const Form_pg_attribute attribute = TupleDescAttr(description, i);
        if (!attribute->attisdropped && attribute->atttypid == type && namestrcmp(&attribute->attname, name) == 0)
            return attribute->attnum;
    }
    ereport(ERROR, (errcode(ERRCODE_UNDEFINED_COLUMN),
                    errmsg("table \"shortener.link\" has no column \"%s\" of type %s", name, format_type_be(type)),
                    errhint("CALL shortener.install();")));
}

struct LinkRow {
    Datum values[column_count];
    bool nulls[column_count];

    int32 workspace() const { return DatumGetInt32(values[workspace_id]); }
    std::string_view code() const { return text_view(values[short_code]); }
    bool redirects() const {
        return DatumGetBool(values[is_active]) && nulls[deleted_at] &&
               (nulls[expires_at] || DatumGetTimestampTz(values[expires_at]) > GetCurrentStatementStartTimestamp());
    }
};

// A transition table, row by row. The values of a row last until the next one is read.
class TransitionTable {
  public:
    TransitionTable(Tuplestorestate* store, Relation relation)
        : store_(store), slot_(MakeSingleTupleTableSlot(RelationGetDescr(relation), &TTSOpsMinimalTuple)) {
        for (int i = 0; i < column_count; i++)
            numbers_[i] = column_number(relation, columns[i].name, columns[i].type);
        pointer_ = tuplestore_alloc_read_pointer(store, EXEC_FLAG_REWIND);
        tuplestore_select_read_pointer(store_, pointer_);
        tuplestore_rescan(store_);
    }
    bool next(LinkRow& row) {
        const MemoryContext caller = MemoryContextSwitchTo(context_); // of rows that were on disk
        tuplestore_select_read_pointer(store_, pointer_);
        const bool is_there = tuplestore_gettupleslot(store_, true, false, slot_);
        MemoryContextSwitchTo(caller);
        if (!is_there)
            return false;
        for (int i = 0; i < column_count; i++)
            row.values[i] = slot_getattr(slot_, numbers_[i], &row.nulls[i]);
        return true;
    }
    void close() const { ExecDropSingleTupleTableSlot(slot_); }

  private:
    Tuplestorestate* store_;
    TupleTableSlot* slot_;
    MemoryContext context_ = CurrentMemoryContext;
    int pointer_;
    AttrNumber numbers_[column_count];
};

// Workspaces and codes of links, as parameters of a statement.
class Codes {
  public:
    void add(const LinkRow& row) {
        workspaces_[count_] = row.values[workspace_id];
        codes_[count_++] = text_datum(row.code());
    }
    bool full() const { return count_ == batch_size; }
    bool empty() const { return count_ == 0; }
    void clear() { count_ = 0; }
    Datum workspaces() { return PointerGetDatum(construct_array(workspaces_, count_, INT4OID, 4, true, TYPALIGN_INT)); }
    Datum codes() { return PointerGetDatum(construct_array(codes_, count_, TEXTOID, -1, false, TYPALIGN_INT)); }

  private:
    Datum workspaces_[batch_size];
    Datum codes_[batch_size];
    int count_ = 0;
};

// Gives `each` every row, and calls `together` when as many are there as are looked up together, and at the end. What
// they allocate is freed after that.
template <typename Each, typename Together>
void for_each_batch(TransitionTable table, Codes& codes, Each&& each, Together&& together) {
    const MemoryContext batch = AllocSetContextCreate(CurrentMemoryContext, "shortener links", ALLOCSET_DEFAULT_SIZES);
    const MemoryContext outer = MemoryContextSwitchTo(batch);
    const auto end_batch = [&] {
        if (!codes.empty())
            together();
        codes.clear();
        MemoryContextReset(batch);
        CHECK_FOR_INTERRUPTS();
    };
    for (LinkRow row; table.next(row);) {
        each(row);
        if (codes.full())
            end_batch();
    }
    end_batch();
    MemoryContextSwitchTo(outer);
    MemoryContextDelete(batch);
    table.close();
}

// Links whose answer has changed, as far as a notification can name them.
class ChangedLinks {
  public:
    void add(const LinkRow& row) {
        if (count_ < max_tags) {
            const std::string_view code = row.code();
            links_[count_] = {row.workspace(), static_cast<int>(code.size()), {}};
            code.copy(links_[count_].code, code_max_length);
        }
        count_++;
    }
    void notify() const;

  private:
    struct Link {
        int32 workspace;
        int length;
        char code[code_max_length];
    };
    Link links_[max_tags];
    int64 count_ = 0;
};

SipKey notification_key() {
    static KeptStatement statement("SELECT cache_key FROM shortener.installation", {});
    const auto section = OwnerSection::to_read({"installation"});
    const Rows rows = statement.run();
    section.end();
    if (rows.empty())
        elog(ERROR, "shortener.installation has no row");
    unsigned char bytes[16] = {};
    rows[0].required<std::string_view>(1).copy(reinterpret_cast<char*>(bytes), sizeof bytes);
    return SipKey::from_bytes(bytes);
}

void ChangedLinks::notify() const {
    if (count_ == 0)
        return;
    if (count_ > max_tags) {
        Async_Notify(channel, flush);
        return;
    }
    const SipKey key = notification_key();
    StringInfoData payload;
    initStringInfo(&payload);
    for (int i = 0; i < count_; i++) {
        const std::string_view code(links_[i].code, links_[i].length);
        appendStringInfo(&payload, "%s%016llx", i ? " " : "",
                         static_cast<unsigned long long>(code_tag(key, links_[i].workspace, code)));
    }
    Async_Notify(channel, payload.data);
}

// In a memory of its own, because it is large for a stack.
template <typename T> T* allocate() {
    return new (palloc(sizeof(T))) T;
}

// A reserved or retired code is refused after the insert, by a look at what is committed now: while the insert
// waited on the unique index, a cleanup may have retired the very code, unseen by an older snapshot.
void refuse_used_codes(Codes& codes) {
    static KeptStatement refused(
        "SELECT n.short_code, r.reserved FROM ROWS FROM (pg_catalog.unnest($workspaces), pg_catalog.unnest($codes))"
        " n (workspace_id, short_code) CROSS JOIN LATERAL ("
        " SELECT true AS reserved FROM shortener.reserved_code"
        "  WHERE code OPERATOR(pg_catalog.=) pg_catalog.lower(n.short_code COLLATE pg_catalog.\"C\")"
        " UNION ALL"
        " SELECT false FROM shortener.retired_code"
        "  WHERE workspace_id OPERATOR(pg_catalog.=) n.workspace_id"
        "    AND short_code OPERATOR(pg_catalog.=) n.short_code"
        " OFFSET 0) r LIMIT 1",
        {{"workspaces", INT4ARRAYOID}, {"codes", TEXTARRAYOID}});
    const auto section = OwnerSection::to_read({"reserved_code", "retired_code"});
    const Rows rows = refused.run_latest({{"workspaces", codes.workspaces()}, {"codes", codes.codes()}});
    section.end();
    if (rows.empty())
        return;
    const char* code = TextDatumGetCString(rows[0].required<Datum>(1));
    if (rows[0].required<bool>(2))
        ereport(ERROR, (errcode(ERRCODE_RESERVED_NAME), errmsg("short code \"%s\" is reserved", code),
                        errdetail("Reserved words are in shortener.reserved_code."),
                        errhint("Choose another alias.")));
    ereport(ERROR, (errcode(ERRCODE_UNIQUE_VIOLATION), errmsg("short code \"%s\" was used before", code),
                    errdetail("The code of a removed link is never given to another one."),
                    errhint("Choose another alias.")));
}

// The codes of removed links, which no link may have again; the only place where that is written. Whoever may delete a
// link need not have a right on that table. Somebody may have retired the code of a link by hand. Nobody can do so twice
// at once, since the link is locked; ON CONFLICT would take twice as long.
void retire(Codes& codes) {
    static KeptStatement statement(
        "INSERT INTO shortener.retired_code (workspace_id, short_code)"
        " SELECT o.workspace_id, o.short_code FROM ROWS FROM (pg_catalog.unnest($workspaces), pg_catalog.unnest($codes))"
        " o (workspace_id, short_code) WHERE NOT EXISTS (SELECT FROM shortener.retired_code r"
        " WHERE r.workspace_id OPERATOR(pg_catalog.=) o.workspace_id"
        " AND r.short_code OPERATOR(pg_catalog.=) o.short_code OFFSET 0)",
        {{"workspaces", INT4ARRAYOID}, {"codes", TEXTARRAYOID}});
    const auto section = OwnerSection::to_write({"retired_code"}, {"link"});
    statement.run({{"workspaces", codes.workspaces()}, {"codes", codes.codes()}});
    section.end();
}

bool same(const LinkRow& before, const LinkRow& after, Column column) {
    if (before.nulls[column] || after.nulls[column])
        return before.nulls[column] == after.nulls[column];
    const Oid type = columns[column].type;
    if (type == TEXTOID || type == BYTEAOID)
        return text_view(before.values[column]) == text_view(after.values[column]);
    return before.values[column] == after.values[column];
}

bool same_answer(const LinkRow& before, const LinkRow& after) {
    return same(before, after, original_url) && same(before, after, redirect_status) &&
           same(before, after, is_active) && before.nulls[deleted_at] == after.nulls[deleted_at] &&
           same(before, after, expires_at);
}

[[noreturn]] void raise_not_ours(const TriggerData* data) {
    ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
                    errmsg("trigger \"%s\" is not one of shortener.link", data->tg_trigger->tgname),
                    errhint("CALL shortener.install();")));
}

TriggerData* trigger_data(FunctionCallInfo fcinfo) {
    if (!CALLED_AS_TRIGGER(fcinfo))
        ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
                        errmsg("function was not called by trigger manager")));
    return reinterpret_cast<TriggerData*>(fcinfo->context);
}

// The data of a trigger of link that fires as install() sets it, with the transition tables that it reads. Anybody may
// attach the functions to a table of their own, or otherwise, where rows and columns are not what they read.
TriggerData* link_trigger_data(FunctionCallInfo fcinfo, TriggerEvent event, bool reads_old, bool reads_new) {
    TriggerData* const data = trigger_data(fcinfo);
    const Relation relation = data->tg_relation;
    if ((data->tg_event & (TRIGGER_EVENT_OPMASK | TRIGGER_EVENT_ROW | TRIGGER_EVENT_TIMINGMASK)) != event ||
        RelationGetNamespace(relation) != get_namespace_oid("shortener", true) ||
        std::string_view(RelationGetRelationName(relation)) != "link" || (reads_old && !data->tg_oldtable) ||
        (reads_new && !data->tg_newtable))
        raise_not_ours(data);
    return data;
}

} // namespace

SHORTENER_FUNCTION(shortener_after_link_insert) {
    TriggerData* const data =
        link_trigger_data(fcinfo, TRIGGER_EVENT_INSERT | TRIGGER_EVENT_AFTER, false, true);
    SPI_connect();
    Codes* const codes = allocate<Codes>();
    ChangedLinks* const changed = allocate<ChangedLinks>();
    for_each_batch(
        TransitionTable(data->tg_newtable, data->tg_relation), *codes,
        [&](const LinkRow& row) {
            codes->add(row);
            // A cache may hold "unknown" for an alias that somebody tried before it was made. Nobody knew a generated
            // code before, and a link with a digest has one.
            if (row.nulls[url_digest])
                changed->add(row);
        },
        [&] { refuse_used_codes(*codes); });
    changed->notify();
    SPI_finish();
    return no_row;
}

SHORTENER_FUNCTION(shortener_after_link_update) {
    TriggerData* const data = link_trigger_data(fcinfo, TRIGGER_EVENT_UPDATE | TRIGGER_EVENT_AFTER, true, true);
    SPI_connect();
    ChangedLinks* const changed = allocate<ChangedLinks>();
    // The executor adds to both tables at once, so the states of a link stand at the same place.
    TransitionTable before(data->tg_oldtable, data->tg_relation), after(data->tg_newtable, data->tg_relation);
    const MemoryContext batch = AllocSetContextCreate(CurrentMemoryContext, "shortener links", ALLOCSET_DEFAULT_SIZES);
    const MemoryContext outer = MemoryContextSwitchTo(batch);
    for (LinkRow old_row, new_row;;) {
        const bool is_there = before.next(old_row);
        if (after.next(new_row) != is_there)
            raise_not_ours(data);
        if (!is_there)
            break;
        for (const Column column : {workspace_id, id, short_code})
            if (!same(old_row, new_row, column))
                ereport(ERROR, (errcode(ERRCODE_INTEGRITY_CONSTRAINT_VIOLATION),
                                errmsg("%s of a link cannot be changed", columns[column].name),
                                errdetail("A published code keeps its meaning."),
                                errhint("Delete the link and create another.")));
        if (!same_answer(old_row, new_row))
            changed->add(new_row);
        MemoryContextReset(batch);
        CHECK_FOR_INTERRUPTS();
    }
    MemoryContextSwitchTo(outer);
    before.close();
    after.close();
    changed->notify();
    SPI_finish();
    return no_row;
}

SHORTENER_FUNCTION(shortener_after_link_delete) {
    TriggerData* const data =
        link_trigger_data(fcinfo, TRIGGER_EVENT_DELETE | TRIGGER_EVENT_AFTER, true, false);
    SPI_connect();
    Codes* const codes = allocate<Codes>();
    ChangedLinks* const changed = allocate<ChangedLinks>();
    for_each_batch(
        TransitionTable(data->tg_oldtable, data->tg_relation), *codes,
        [&](const LinkRow& row) {
            codes->add(row);
            // Whoever was gone before is gone now: a cleanup of expired links tells nobody.
            if (row.redirects())
                changed->add(row);
        },
        [&] { retire(*codes); });
    changed->notify();
    SPI_finish();
    return no_row;
}

SHORTENER_FUNCTION(shortener_before_link_update) {
    TriggerData* const data = link_trigger_data(
        fcinfo, TRIGGER_EVENT_UPDATE | TRIGGER_EVENT_ROW | TRIGGER_EVENT_BEFORE, false, false);
    int column = column_number(data->tg_relation, "updated_at", TIMESTAMPTZOID);
    Datum now = TimestampTzGetDatum(GetCurrentTransactionStartTimestamp());
    bool is_null = false;
    return PointerGetDatum(heap_modify_tuple_by_cols(data->tg_newtuple, RelationGetDescr(data->tg_relation), 1,
                                                     &column, &now, &is_null));
}

SHORTENER_FUNCTION(shortener_flush_caches) {
    trigger_data(fcinfo);
    Async_Notify(channel, flush);
    return no_row;
}
