// Triggers: what must hold for every change of a link, whoever makes it, and what caches must hear of.
//
// They run with the rights of whoever changes links, read the changed rows from the tuplestores that the
// executor hands them, never by name, and name tables only in an OwnerSection.

#include <algorithm>
#include <iterator>

#include "pg/guard.h"
#include "pg/link_code.h"
#include "pg/link_trigger.h"
#include "pg/notifications.h"
#include "pg/owner_section.h"
#include "pg/plans.h"
#include "pg/stored_url.h"
#include "pg/text.h"

extern "C" {
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/timestamp.h"
}

using namespace shortener;

namespace {

constexpr Datum no_row = 0; // what a trigger after the fact returns

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
    bool is_nullable;
} columns[] = {
    {"workspace_id", INT4OID, false},     {"id", INT8OID, false},
    {"short_code", TEXTOID, false},       {"original_url", TEXTOID, false},
    {"url_digest", BYTEAOID, true},       {"redirect_status", INT2OID, false},
    {"is_active", BOOLOID, false},        {"deleted_at", TIMESTAMPTZOID, true},
    {"expires_at", TIMESTAMPTZOID, true},
};
static_assert(std::size(columns) == column_count);

// The number of a column in the table, whose owner may have changed it.
AttrNumber column_number(Relation relation, const char* name, Oid type) {
    const TupleDesc description = RelationGetDescr(relation);
    for (int i = 0; i < description->natts; i++) {
        const Form_pg_attribute attribute = TupleDescAttr(description, i);
        if (!attribute->attisdropped && attribute->atttypid == type &&
            namestrcmp(&attribute->attname, name) == 0)
            return attribute->attnum;
    }
    ereport(ERROR,
            (errcode(ERRCODE_UNDEFINED_COLUMN),
             errmsg("table \"shortener.link\" has no column \"%s\" of type %s", name, format_type_be(type))));
}

// The values of a link; they last as long as the row they were read from.
struct LinkRow {
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

// Reads rows of link.
class LinkReader {
  public:
    explicit LinkReader(Relation relation) : description_(RelationGetDescr(relation)) {
        for (int i = 0; i < column_count; i++)
            numbers_[i] = column_number(relation, columns[i].name, columns[i].type);
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
        for (int i = 0; i < column_count; i++) {
            row.values[i] = value(numbers_[i], row.nulls[i]);
            if (row.nulls[i] &&
                !columns[i].is_nullable) // as it may be before the constraint is checked, or without it
                ereport(ERROR, (errcode(ERRCODE_NOT_NULL_VIOLATION),
                                errmsg("null value in column \"%s\" of relation \"link\"", columns[i].name)));
        }
        return row;
    }

    TupleDesc description_;
    AttrNumber numbers_[column_count];
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

// The number whose scrambled code the link has, its own or, by chance, another; −1 for any other code.
int64 number_in_code(const LinkRow& row) {
    const std::optional<Workspace> workspace = find_workspace_if_any(row.workspace());
    return workspace ? number_of(*workspace, row.code()).value_or(-1) : -1;
}

// Workspaces and codes of links, as parameters of a statement.
class Codes {
  public:
    void add(const LinkRow& row, int64 number = -1) {
        workspaces_[count_] = row.values[workspace_id];
        numbers_[count_] = Int64GetDatum(number);
        codes_[count_++] = text_datum(row.code());
    }
    bool empty() const { return count_ == 0; }
    struct Parameters {
        Argument workspaces, codes, numbers;
    };
    Parameters take() {
        const Parameters taken{
            {"workspaces",
             PointerGetDatum(construct_array(workspaces_, count_, INT4OID, 4, true, TYPALIGN_INT))},
            {"codes", PointerGetDatum(construct_array(codes_, count_, TEXTOID, -1, false, TYPALIGN_INT))},
            {"numbers", PointerGetDatum(construct_array(numbers_, count_, INT8OID, 8, FLOAT8PASSBYVAL,
                                                        TYPALIGN_DOUBLE))}};
        count_ = 0;
        return taken;
    }

  private:
    Datum workspaces_[batch_size];
    Datum codes_[batch_size];
    Datum numbers_[batch_size];
    int count_ = 0;
};

// Links whose URL is to be checked.
class UrlBatch {
  public:
    void add(const LinkRow& row) {
        const StoredUrl url = row.stored_url();
        if (was_accepted(url))
            return;
        if (count_ == 0) // which is seldom needed, and goes with the memory of the batch
            urls_ = static_cast<StoredUrl*>(palloc(sizeof(StoredUrl) * batch_size));
        urls_[count_++] = {url.workspace_id, copied(url.short_code), copied(url.original_url),
                           url.url_digest.data() ? copied(url.url_digest) : std::string_view()};
    }
    void check() {
        if (count_ > 0)
            check_stored_urls(urls_, count_);
        count_ = 0;
    }

  private:
    static std::string_view copied(std::string_view text) {
        return {static_cast<const char*>(memcpy(palloc(text.size() + 1), text.data(), text.size())),
                text.size()};
    }

    StoredUrl* urls_ = nullptr;
    int count_ = 0;
};

// In a memory of its own, because it is large for a stack.
template <typename T> T* allocate() {
    return new (palloc(sizeof(T))) T;
}

// A reserved or retired code is refused after the insert, by a look at what is committed now: while the
// insert waited on the unique index, a cleanup may have retired the very code, unseen by an older snapshot.
void refuse_used_codes(Codes& codes) {
    if (codes.empty())
        return;
    static KeptStatement refused(
        "SELECT n.short_code, r.reserved FROM ROWS FROM (pg_catalog.unnest($workspaces), "
        "pg_catalog.unnest($codes),"
        " pg_catalog.unnest($numbers)) n (workspace_id, short_code, number) CROSS JOIN LATERAL ("
        " SELECT true AS reserved FROM shortener.reserved_code"
        "  WHERE code OPERATOR(pg_catalog.=) pg_catalog.lower(n.short_code COLLATE pg_catalog.\"C\")"
        " UNION ALL"
        " SELECT false FROM shortener.retired_code"
        "  WHERE workspace_id OPERATOR(pg_catalog.=) n.workspace_id"
        "    AND short_code OPERATOR(pg_catalog.=) n.short_code"
        " UNION ALL"
        " SELECT false FROM shortener.retired_number"
        "  WHERE workspace_id OPERATOR(pg_catalog.=) n.workspace_id"
        "    AND highest OPERATOR(pg_catalog.>=) n.number AND n.number OPERATOR(pg_catalog.>=) 0"
        " OFFSET 0) r LIMIT 1",
        {{"workspaces", INT4ARRAYOID}, {"codes", TEXTARRAYOID}, {"numbers", INT8ARRAYOID}});
    const auto section = OwnerSection::to_read({"reserved_code", "retired_code", "retired_number"});
    const Codes::Parameters parameters = codes.take();
    const Rows rows = refused.run_latest({parameters.workspaces, parameters.codes, parameters.numbers});
    section.end();
    if (rows.empty()) {
        rows.release();
        return;
    }
    const char* code = TextDatumGetCString(rows[0].required<Datum>(1));
    if (rows[0].required<bool>(2))
        ereport(ERROR, (errcode(ERRCODE_RESERVED_NAME), errmsg("short code \"%s\" is reserved", code),
                        errdetail("Reserved words are in shortener.reserved_code."),
                        errhint("Choose another alias.")));
    ereport(ERROR, (errcode(ERRCODE_UNIQUE_VIOLATION), errmsg("short code \"%s\" was used before", code),
                    errdetail("The code of a removed link is never given to another one."),
                    errhint("Choose another alias.")));
}

// The highest of the numbers whose scrambled codes are retired, for each workspace.
class RetiredNumbers {
  public:
    void add(int32 workspace, int64 number) {
        int place = 0;
        while (place < count_ && workspaces_[place] != workspace)
            place++;
        if (place == count_) {
            workspaces_[count_] = workspace;
            highest_[count_] = number;
            codes_[count_++] = 0;
        }
        highest_[place] = std::max(highest_[place], number);
        codes_[place]++;
    }
    void retire();

  private:
    int32 workspaces_[batch_size];
    int64 highest_[batch_size];
    int64 codes_[batch_size];
    int count_ = 0;
};

// Rows that another transaction holds stay as they are: nobody waits. Above READ COMMITTED, where a row that
// another has taken in is an error, all do.
void RetiredNumbers::retire() {
    if (count_ == 0)
        return;
    static KeptStatement statement(
        "WITH taken_in AS (DELETE FROM shortener.retired_number r WHERE r.ctid OPERATOR(pg_catalog.=) ANY "
        "(ARRAY("
        "  SELECT o.ctid FROM shortener.retired_number o"
        "  WHERE $takes_in AND o.workspace_id OPERATOR(pg_catalog.=) ANY ($workspaces) FOR UPDATE SKIP "
        "LOCKED))"
        " RETURNING r.workspace_id, r.highest, r.codes) "
        "INSERT INTO shortener.retired_number AS r (workspace_id, highest, codes)"
        " SELECT n.workspace_id, pg_catalog.max(n.highest), pg_catalog.sum(n.codes)::pg_catalog.int8 FROM ("
        "  SELECT u.workspace_id, u.highest, u.codes FROM ROWS FROM (pg_catalog.unnest($workspaces),"
        "   pg_catalog.unnest($highest), pg_catalog.unnest($codes)) u (workspace_id, highest, codes)"
        "  UNION ALL SELECT t.workspace_id, t.highest, t.codes FROM taken_in t) n"
        " GROUP BY n.workspace_id ORDER BY n.workspace_id"
        " ON CONFLICT (workspace_id, highest) DO UPDATE"
        "  SET codes = r.codes OPERATOR(pg_catalog.+) excluded.codes",
        {{"takes_in", BOOLOID},
         {"workspaces", INT4ARRAYOID},
         {"highest", INT8ARRAYOID},
         {"codes", INT8ARRAYOID}});
    const auto array_of = [this](const auto& numbers, Oid type, int size, char alignment) {
        Datum* const elements = static_cast<Datum*>(palloc(sizeof(Datum) * count_));
        for (int i = 0; i < count_; i++)
            elements[i] = static_cast<Datum>(numbers[i]);
        return PointerGetDatum(construct_array(elements, count_, type, size, true, alignment));
    };
    const auto section = OwnerSection::to_write({"retired_number"});
    statement.run({{"takes_in", BoolGetDatum(!IsolationUsesXactSnapshot())},
                   {"workspaces", array_of(workspaces_, INT4OID, 4, TYPALIGN_INT)},
                   {"highest", array_of(highest_, INT8OID, 8, TYPALIGN_DOUBLE)},
                   {"codes", array_of(codes_, INT8OID, 8, TYPALIGN_DOUBLE)}});
    section.end();
    count_ = 0;
}

// The codes of removed links, which no link may have again; the only place where that is written, with the
// numbers above. Whoever may delete a link need not have a right on that table. Somebody may have retired the
// code of a link by hand. Nobody can do so twice at once, since the link is locked; ON CONFLICT would take
// twice as long.
void retire(Codes& codes) {
    if (codes.empty())
        return;
    static KeptStatement statement(
        "INSERT INTO shortener.retired_code (workspace_id, short_code)"
        " SELECT o.workspace_id, o.short_code FROM ROWS FROM (pg_catalog.unnest($workspaces), "
        "pg_catalog.unnest($codes))"
        " o (workspace_id, short_code) WHERE NOT EXISTS (SELECT FROM shortener.retired_code r"
        " WHERE r.workspace_id OPERATOR(pg_catalog.=) o.workspace_id"
        " AND r.short_code OPERATOR(pg_catalog.=) o.short_code OFFSET 0)",
        {{"workspaces", INT4ARRAYOID}, {"codes", TEXTARRAYOID}});
    const auto section = OwnerSection::to_write({"retired_code"}, {"link"});
    const Codes::Parameters parameters = codes.take();
    statement.run({parameters.workspaces, parameters.codes});
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

void refuse_change(const LinkRow& before, const LinkRow& after) {
    for (const Column column : {workspace_id, id, short_code})
        if (!same(before, after, column))
            ereport(ERROR, (errcode(ERRCODE_INTEGRITY_CONSTRAINT_VIOLATION),
                            errmsg("%s of a link cannot be changed", columns[column].name),
                            errdetail("A published code keeps its meaning."),
                            errhint("Delete the link and create another.")));
    if (!before.nulls[deleted_at] && !same(before, after, deleted_at))
        ereport(ERROR, (errcode(ERRCODE_INTEGRITY_CONSTRAINT_VIOLATION),
                        errmsg("deleted_at of a deleted link cannot be changed"),
                        errdetail("A deleted link stays deleted, and its code is never used again.")));
}

} // namespace

SHORTENER_FUNCTION(shortener_after_link_insert) {
    TriggerData* const data =
        link_trigger_data(fcinfo, TRIGGER_EVENT_INSERT | TRIGGER_EVENT_AFTER, false, true);
    SPI_connect();
    Codes* const codes = allocate<Codes>();
    UrlBatch urls;
    ChangedCodes* const changed = allocate<ChangedCodes>();
    LinkTable inserted(data->tg_newtable, data->tg_relation);
    in_batches(
        [&] {
            LinkRow row;
            if (!inserted.next(row))
                return false;
            if (!was_generated(row.stored_url()))
                codes->add(row, number_in_code(row));
            urls.add(row);
            // A cache may hold "unknown" for an alias that somebody tried before it was made. Nobody knew a
            // generated code before, and a link with a digest has one.
            if (row.nulls[url_digest])
                changed->add(row.workspace(), row.code());
            return true;
        },
        [&] {
            urls.check();
            refuse_used_codes(*codes);
        });
    inserted.close();
    changed->notify();
    SPI_finish();
    return no_row;
}

SHORTENER_FUNCTION(shortener_after_link_update) {
    TriggerData* const data =
        link_trigger_data(fcinfo, TRIGGER_EVENT_UPDATE | TRIGGER_EVENT_AFTER, true, true);
    SPI_connect();
    UrlBatch urls;
    ChangedCodes* const changed = allocate<ChangedCodes>();
    // The executor adds to both tables at once, so the states of a link stand at the same place.
    LinkTable before(data->tg_oldtable, data->tg_relation), after(data->tg_newtable, data->tg_relation);
    in_batches(
        [&] {
            LinkRow old_row, new_row;
            const bool is_there = before.next(old_row);
            if (after.next(new_row) != is_there)
                raise_not_of_link(data);
            if (!is_there)
                return false;
            refuse_change(old_row, new_row);
            if (!same(old_row, new_row, original_url) || !same(old_row, new_row, url_digest))
                urls.add(new_row);
            if (!same_answer(old_row, new_row))
                changed->add(new_row.workspace(), new_row.code());
            return true;
        },
        [&] { urls.check(); });
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
    RetiredNumbers* const numbers = allocate<RetiredNumbers>();
    ChangedCodes* const changed = allocate<ChangedCodes>();
    LinkTable deleted(data->tg_oldtable, data->tg_relation);
    in_batches(
        [&] {
            LinkRow row;
            if (!deleted.next(row))
                return false;
            if (const int64 number = number_in_code(row);
                number >= 0 && number == DatumGetInt64(row.values[id]))
                numbers->add(row.workspace(), number);
            else
                codes->add(row);
            // Whoever was gone before is gone now: a cleanup of expired links tells nobody.
            if (row.redirects())
                changed->add(row.workspace(), row.code());
            return true;
        },
        [&] {
            retire(*codes);
            numbers->retire();
        });
    deleted.close();
    changed->notify();
    SPI_finish();
    return no_row;
}

// A link that leads elsewhere than before, and that create-or-get would still give for the URL that it had,
// becomes a link of its own.
SHORTENER_FUNCTION(shortener_before_link_update) {
    TriggerData* const data = link_trigger_data(
        fcinfo, TRIGGER_EVENT_UPDATE | TRIGGER_EVENT_ROW | TRIGGER_EVENT_BEFORE, false, false);
    const TupleDesc description = RelationGetDescr(data->tg_relation);
    const LinkReader reader(data->tg_relation);
    const LinkRow old_row = reader.read(data->tg_trigtuple), new_row = reader.read(data->tg_newtuple);
    bool loses_digest = false;
    if (!new_row.nulls[url_digest] && !same(old_row, new_row, original_url) &&
        same(old_row, new_row, url_digest)) {
        SPI_connect();
        loses_digest = !has_right_digest(new_row.stored_url());
        SPI_finish();
    }
    int numbers[] = {column_number(data->tg_relation, "updated_at", TIMESTAMPTZOID),
                     column_number(data->tg_relation, columns[url_digest].name, columns[url_digest].type)};
    Datum values[] = {TimestampTzGetDatum(GetCurrentTransactionStartTimestamp()), 0};
    bool nulls[] = {false, true};
    return PointerGetDatum(heap_modify_tuple_by_cols(data->tg_newtuple, description, loses_digest ? 2 : 1,
                                                     numbers, values, nulls));
}
