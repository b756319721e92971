#include <string_view>

#include "pg/changed_links.h"

extern "C" {
#include "catalog/namespace.h"
#include "executor/executor.h"
#include "utils/builtins.h"
}

namespace shortener {

namespace {

TriggerData* trigger_data(FunctionCallInfo fcinfo) {
    if (!CALLED_AS_TRIGGER(fcinfo))
        ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
                        errmsg("function was not called by trigger manager")));
    return reinterpret_cast<TriggerData*>(fcinfo->context);
}

} // namespace

void raise_not_of_link(const TriggerData* data) {
    ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
                    errmsg("trigger \"%s\" is not one of shortener.link", data->tg_trigger->tgname),
                    errhint("CALL shortener.install();")));
}

TriggerEvent link_trigger_event(FunctionCallInfo fcinfo) {
    return trigger_data(fcinfo)->tg_event & TRIGGER_EVENT_OPMASK;
}

TriggerData* link_trigger_data(FunctionCallInfo fcinfo, TriggerEvent event, bool reads_old, bool reads_new) {
    TriggerData* const data = trigger_data(fcinfo);
    const Relation relation = data->tg_relation;
    if ((data->tg_event & (TRIGGER_EVENT_OPMASK | TRIGGER_EVENT_ROW | TRIGGER_EVENT_TIMINGMASK)) != event ||
        RelationGetNamespace(relation) != get_namespace_oid("shortener", true) ||
        std::string_view(RelationGetRelationName(relation)) != "link" || (reads_old && !data->tg_oldtable) ||
        (reads_new && !data->tg_newtable))
        raise_not_of_link(data);
    return data;
}

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

TransitionTable::TransitionTable(Tuplestorestate* store, Relation relation)
    : store_(store), slot_(MakeSingleTupleTableSlot(RelationGetDescr(relation), &TTSOpsMinimalTuple)),
      pointer_(tuplestore_alloc_read_pointer(store, EXEC_FLAG_REWIND)) {
    tuplestore_select_read_pointer(store_, pointer_);
    tuplestore_rescan(store_);
}

bool TransitionTable::next() {
    const MemoryContext caller = MemoryContextSwitchTo(context_); // of rows that were on disk
    tuplestore_select_read_pointer(store_, pointer_);
    const bool is_there = tuplestore_gettupleslot(store_, true, false, slot_);
    MemoryContextSwitchTo(caller);
    return is_there;
}

} // namespace shortener
