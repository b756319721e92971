// Audit: the trigger that writes what changed in a link to link_audit.
//
// Whoever changes links has no right on link_audit: entries are written with those of its owner, from what
// the executor and the session know. What a role can set, such as search_path, is not asked.

#include "pg/changed_links.h"
#include "pg/guard.h"
#include "pg/owner_section.h"
#include "pg/plans.h"
#include "pg/session.h"
#include "pg/text.h"

extern "C" {
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
}

using namespace shortener;

namespace {

// The row as JSON text.
Datum row_text(TupleTableSlot* slot) {
    return DirectFunctionCall1(row_to_json, ExecFetchSlotHeapTupleDatum(slot));
}

// Links before and after the change, at the same places.
class Changes {
  public:
    explicit Changes(const char* action) : action_(action) {}
    void add(TupleTableSlot* before, TupleTableSlot* after) {
        add(old_rows_, before);
        add(new_rows_, after);
        count_++;
    }
    void write();

  private:
    struct Texts {
        Datum values[batch_size];
        bool nulls[batch_size];
    };
    void add(Texts& texts, TupleTableSlot* slot) {
        texts.nulls[count_] = slot == nullptr;
        texts.values[count_] = slot ? row_text(slot) : 0;
    }
    Datum array(Texts& texts) {
        int bound = 1;
        return PointerGetDatum(construct_md_array(texts.values, texts.nulls, 1, &count_, &bound, TEXTOID, -1,
                                                  false, TYPALIGN_INT));
    }

    const char* action_;
    Texts old_rows_, new_rows_;
    int count_ = 0;
};

// updated_at always changes, and says nothing that changed_at does not. A column that is not there is as one
// that is null.
void Changes::write() {
    if (count_ == 0)
        return;
    static KeptStatement statement(
        "INSERT INTO shortener.link_audit"
        " (workspace_id, link_id, action, short_code, old_values, new_values, session_role, changing_role, "
        "user_id, api_key) "
        "SELECT (l.link OPERATOR(pg_catalog.->>) 'workspace_id')::pg_catalog.int4,"
        " (l.link OPERATOR(pg_catalog.->>) 'id')::pg_catalog.int8, $action, l.link OPERATOR(pg_catalog.->>) "
        "'short_code',"
        " o.changed, n.changed, $session_role::pg_catalog.name, $changing_role::pg_catalog.name, $user_id, "
        "$api_key "
        "FROM ROWS FROM (pg_catalog.unnest($old_rows), pg_catalog.unnest($new_rows)) WITH ORDINALITY t "
        "(old_text, new_text, place)"
        " CROSS JOIN LATERAL (SELECT t.old_text::pg_catalog.jsonb, t.new_text::pg_catalog.jsonb OFFSET 0) r "
        "(old_row, new_row)"
        " CROSS JOIN LATERAL (SELECT COALESCE(r.new_row, r.old_row)) l (link)"
        " CROSS JOIN LATERAL (SELECT pg_catalog.jsonb_object_agg(c.key, c.value) FROM "
        "pg_catalog.jsonb_each(r.old_row) c"
        "  WHERE c.key OPERATOR(pg_catalog.<>) 'updated_at' AND c.value OPERATOR(pg_catalog.<>)"
        "   COALESCE(r.new_row OPERATOR(pg_catalog.->) c.key, 'null'::pg_catalog.jsonb)) o (changed)"
        " CROSS JOIN LATERAL (SELECT pg_catalog.jsonb_object_agg(c.key, c.value) FROM "
        "pg_catalog.jsonb_each(r.new_row) c"
        "  WHERE c.key OPERATOR(pg_catalog.<>) 'updated_at' AND c.value OPERATOR(pg_catalog.<>)"
        "   COALESCE(r.old_row OPERATOR(pg_catalog.->) c.key, 'null'::pg_catalog.jsonb)) n (changed) "
        "WHERE o.changed IS NOT NULL OR n.changed IS NOT NULL ORDER BY t.place",
        {{"action", TEXTOID},
         {"session_role", TEXTOID},
         {"changing_role", TEXTOID},
         {"user_id", INT8OID},
         {"api_key", TEXTOID},
         {"old_rows", TEXTARRAYOID},
         {"new_rows", TEXTARRAYOID}});
    const Datum old_rows = array(old_rows_), new_rows = array(new_rows_);
    const Datum session_role = text_datum(GetUserNameFromId(GetSessionUserId(), false));
    const Datum changing_role = text_datum(GetUserNameFromId(GetUserId(), false));
    std::optional<Datum> user_id, api_key;
    if (const Identity* const identity = current_identity()) {
        if (identity->user_id != 0)
            user_id = Int64GetDatum(identity->user_id);
        api_key = text_datum(identity->key_prefix);
    }
    const auto section = OwnerSection::to_write({"link_audit"});
    statement.run({{"action", text_datum(action_)},
                   {"session_role", session_role},
                   {"changing_role", changing_role},
                   {"user_id", user_id},
                   {"api_key", api_key},
                   {"old_rows", old_rows},
                   {"new_rows", new_rows}});
    section.end();
    count_ = 0;
}

} // namespace

SHORTENER_FUNCTION(shortener_audit_link) {
    const TriggerEvent event = link_trigger_event(fcinfo);
    const bool has_old = event != TRIGGER_EVENT_INSERT, has_new = event != TRIGGER_EVENT_DELETE;
    TriggerData* const data = link_trigger_data(fcinfo, event | TRIGGER_EVENT_AFTER, has_old, has_new);
    SPI_connect();
    Changes* const changes = new (palloc(sizeof(Changes))) Changes(!has_old   ? "insert"
                                                                   : !has_new ? "delete"
                                                                              : "update");
    // As in after_link_update, the states of a link stand at the same place.
    std::optional<TransitionTable> before, after;
    if (has_old)
        before.emplace(data->tg_oldtable, data->tg_relation);
    if (has_new)
        after.emplace(data->tg_newtable, data->tg_relation);
    in_batches(
        [&] {
            const bool is_there = (before ? before : after)->next();
            if (before && after && after->next() != is_there)
                raise_not_of_link(data);
            if (is_there)
                changes->add(before ? before->slot() : nullptr, after ? after->slot() : nullptr);
            return is_there;
        },
        [&] { changes->write(); });
    if (before)
        before->close();
    if (after)
        after->close();
    SPI_finish();
    return 0;
}
