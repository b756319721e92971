#pragma once

// What the triggers of link after a statement have in common: they make sure that they are where install()
// put them, and read the changed rows from the tuplestores that the executor hands them, many together.

extern "C" {
#include "postgres.h"

#include "commands/trigger.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/rel.h"
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
