#include "pg/log_filter.h"
#include "pg/plans.h"
#include "pg/session.h"
#include "pg/settings.h"

extern "C" {
#include "postgres.h"

#include "fmgr.h"

PG_MODULE_MAGIC;

void _PG_init(void);
}

void _PG_init(void) {
    shortener::filter_log();
    shortener::plan_for_large_tables();
    shortener::define_session();
    shortener::define_settings();
}
