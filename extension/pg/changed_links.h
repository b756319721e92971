#pragma once

// The changed rows of link, as its triggers read them. They make sure that they are where install() put them,
// and read from the tuplestores that the executor hands them, many rows together.

#include <iterator>
#include <string_view>

#include "pg/stored_url.h"
#include "pg/text.h"

extern "C" {
#include "postgres.h"

#include "access/htup.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"
}

namespace shortener {

// Rows that are looked up together.
inline constexpr int batch_size = 1000;

[[noreturn]] void raise_not_of_link(const TriggerData* data);

// The data of a trigger of link that fires as install() sets it, with the transition tables that it reads.
// Anybody may attach the functions to a table of their own, or otherwise, where rows and columns are not what
// they read.
TriggerData* link_trigger_data(FunctionCallInfo fcinfo, TriggerEvent event, bool reads_old, bool reads_new);
TriggerEvent link_trigger_event(FunctionCallInfo fcinfo);

// A transition table, row by row. What stands in the slot lasts until the next row.
class TransitionTable {
  public:
    TransitionTable(Tuplestorestate* store, Relation relation);
    bool next();
    TupleTableSlot* slot() const { return slot_; }
    void close() const { ExecDropSingleTupleTableSlot(slot_); }

  private:
    Tuplestorestate* store_;
    TupleTableSlot* slot_;
    int pointer_;
    MemoryContext context_ = CurrentMemoryContext;
};

// The values of the columns of link that triggers read; they last as long as the row they were read from.
struct LinkRow {
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

    Datum values[column_count];
    bool nulls[column_count];

    int32 workspace() const { return DatumGetInt32(values[workspace_id]); }
    std::string_view code() const { return text_view(values[short_code]); }
    StoredUrl stored_url() const {
        return {workspace(), code(), text_view(values[original_url]),
                nulls[url_digest] ? std::string_view() : text_view(values[url_digest])};
    }
    bool redirects() const {
        return DatumGetBool(values[is_active]) && nulls[deleted_at] &&
               (nulls[expires_at] ||
                DatumGetTimestampTz(values[expires_at]) > GetCurrentStatementStartTimestamp());
    }
};

// The columns, in the order of LinkRow::Column.
inline constexpr struct {
    const char* name;
    Oid type;
    bool is_nullable;
} link_columns[] = {
    {"workspace_id", INT4OID, false},     {"id", INT8OID, false},
    {"short_code", TEXTOID, false},       {"original_url", TEXTOID, false},
    {"url_digest", BYTEAOID, true},       {"redirect_status", INT2OID, false},
    {"is_active", BOOLOID, false},        {"deleted_at", TIMESTAMPTZOID, true},
    {"expires_at", TIMESTAMPTZOID, true},
};
static_assert(std::size(link_columns) == LinkRow::column_count);

// The number of a column in the table, whose owner may have changed it.
AttrNumber column_number(Relation relation, const char* name, Oid type);

// Reads rows of link.
class LinkReader {
  public:
    explicit LinkReader(Relation relation) : description_(RelationGetDescr(relation)) {
        for (int i = 0; i < LinkRow::column_count; i++)
            numbers_[i] = column_number(relation, link_columns[i].name, link_columns[i].type);
    }
    LinkRow read(HeapTuple tuple) const {
        return read([&](AttrNumber number, bool& is_null) {
            return heap_getattr(tuple, number, description_, &is_null);
        });
    }
    LinkRow read(TupleTableSlot* slot) const {
        return read([&](AttrNumber number, bool& is_null) { return slot_getattr(slot, number, &is_null); });
    }

  private:
    template <typename Value> LinkRow read(Value&& value) const {
        LinkRow row;
        for (int i = 0; i < LinkRow::column_count; i++) {
            row.values[i] = value(numbers_[i], row.nulls[i]);
            if (row.nulls[i] &&
                !link_columns[i].is_nullable) // as it may be before the constraint is checked, or without it
                ereport(ERROR,
                        (errcode(ERRCODE_NOT_NULL_VIOLATION),
                         errmsg("null value in column \"%s\" of relation \"link\"", link_columns[i].name)));
        }
        return row;
    }

    TupleDesc description_;
    AttrNumber numbers_[LinkRow::column_count];
};

// Links of a transition table. The values of a row last until the next one is read.
class LinkTable : public TransitionTable {
  public:
    LinkTable(Tuplestorestate* store, Relation relation)
        : TransitionTable(store, relation), reader_(relation) {}
    bool next(LinkRow& row) {
        if (!TransitionTable::next())
            return false;
        row = reader_.read(slot());
        return true;
    }

  private:
    LinkReader reader_;
};

// Calls `next`, which reads a row, until there is none, and `together` after as many as are looked up
// together, and at the end. What they allocate is freed after that.
template <typename Next, typename Together> void in_batches(Next&& next, Together&& together) {
    const MemoryContext batch =
        AllocSetContextCreate(CurrentMemoryContext, "shortener links", ALLOCSET_DEFAULT_SIZES);
    const MemoryContext outer = MemoryContextSwitchTo(batch);
    for (bool more = true; more;) {
        for (int rows = 0; rows < batch_size && more; rows++)
            more = next();
        together();
        MemoryContextReset(batch);
        CHECK_FOR_INTERRUPTS();
    }
    MemoryContextSwitchTo(outer);
    MemoryContextDelete(batch);
}

} // namespace shortener
