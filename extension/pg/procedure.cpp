// What procedures that commit must know of their call and of their session, and SQL does not say.

#include "pg/guard.h"

extern "C" {
#include "access/xact.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
}

// A procedure, because only one is told whether it may commit: in a block, in a function or in a command with
// other statements, its caller cannot.
SHORTENER_FUNCTION(shortener_require_no_transaction) {
    if (!fcinfo->context || !IsA(fcinfo->context, CallContext) || PG_ARGISNULL(0))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("must be called for a procedure")));
    if (castNode(CallContext, fcinfo->context)->atomic || IsSubTransaction())
        ereport(ERROR,
                (errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
                 errmsg("%s cannot run inside a transaction block",
                        NameStr(*DatumGetName(DirectFunctionCall1(text_name, PG_GETARG_DATUM(0))))),
                 errhint("Call it alone: outside BEGIN, outside functions, and not together with other "
                         "statements in one command.")));
    PG_RETURN_VOID();
}

// For one that does the same in one transaction where it cannot commit.
SHORTENER_FUNCTION(shortener_can_commit) {
    PG_RETURN_BOOL(SPI_inside_nonatomic_context() && !IsSubTransaction());
}

// pg_stat_activity hides it after SET ROLE.
SHORTENER_FUNCTION(shortener_backend_start) {
    PG_RETURN_TIMESTAMPTZ(MyStartTimestamp);
}
