// Triggers: what must hold for every change of a link, whoever makes it, and what caches must hear of.
//
// They run with the rights of whoever changes links, read the changed rows from the tuplestores that the
// executor hands them, never by name, and name tables only in an OwnerSection.

#include "pg/changed_links.h"
#include "pg/guard.h"
#include "pg/notifications.h"
#include "pg/stored_url.h"
#include "pg/text.h"
#include "pg/used_codes.h"

extern "C" {
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "utils/timestamp.h"
}

using namespace shortener;

namespace {

using Column = LinkRow::Column;
using enum LinkRow::Column;

constexpr Datum no_row = 0; // what a trigger after the fact returns

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

bool same(const LinkRow& before, const LinkRow& after, Column column) {
    if (before.nulls[column] || after.nulls[column])
        return before.nulls[column] == after.nulls[column];
    const Oid type = link_columns[column].type;
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
                            errmsg("%s of a link cannot be changed", link_columns[column].name),
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
    int numbers[] = {
        column_number(data->tg_relation, "updated_at", TIMESTAMPTZOID),
        column_number(data->tg_relation, link_columns[url_digest].name, link_columns[url_digest].type)};
    Datum values[] = {TimestampTzGetDatum(GetCurrentTransactionStartTimestamp()), 0};
    bool nulls[] = {false, true};
    return PointerGetDatum(heap_modify_tuple_by_cols(data->tg_newtuple, description, loses_digest ? 2 : 1,
                                                     numbers, values, nulls));
}
