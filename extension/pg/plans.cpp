#include "pg/plans.h"

#include "pg/guard.h"

extern "C" {
#include "utils/guc.h"
#include "utils/plancache.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"
}

namespace shortener {

void KeptStatement::prepare() {
    if (!plan_) {
        SPIPlanPtr plan = SPI_prepare_cursor(sql_, count_, types_, CURSOR_OPT_GENERIC_PLAN);
        if (!plan)
            fail(SPI_result);
        if (SPI_keepplan(plan) != 0)
            fail(SPI_ERROR_ARGUMENT);
        plan_ = plan;
    }
    // The setting holds for the planning alone, not for what triggers of the user's own do during the run.
    const int nest_level = NewGUCNestLevel();
    set_config_option("enable_seqscan", "off", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
    CachedPlan* const planned = SPI_plan_get_cached_plan(plan_);
    AtEOXact_GUC(true, nest_level);
    if (planned)
        ReleaseCachedPlan(planned, CurrentResourceOwner);
    is_planned_ = true;
}

void KeptStatement::run_latest(const Datum* values) {
    expect(SPI_execute_snapshot(plan(), const_cast<Datum*>(values), nullptr, GetLatestSnapshot(), InvalidSnapshot, false, false,
                                0));
}

void KeptStatement::fail(int result) {
    elog(ERROR, "%s: %s", SPI_result_code_string(result), sql_);
    pg_unreachable();
}

} // namespace shortener
