// What resolve(), which is SQL, cannot say in it.

#include "pg/guard.h"
#include "pg/owner_section.h"
#include "pg/plans.h"
#include "pg/text.h"

extern "C" {
#include "catalog/pg_type.h"
}

using namespace shortener;

// Asked only for a code that no link has.
SHORTENER_FUNCTION(shortener_is_retired) {
    if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
        PG_RETURN_BOOL(false);
    static KeptStatement statement("SELECT FROM shortener.retired_code r"
                                   " WHERE r.workspace_id OPERATOR(pg_catalog.=) $workspace"
                                   " AND r.short_code OPERATOR(pg_catalog.=) $code",
                                   {{"workspace", INT4OID}, {"code", TEXTOID}});
    SPI_connect();
    const auto section = OwnerSection::to_read({"retired_code"});
    const bool is_retired =
        !statement.read_active({{"workspace", PG_GETARG_DATUM(0)}, {"code", PG_GETARG_DATUM(1)}}).empty();
    section.end();
    SPI_finish();
    PG_RETURN_BOOL(is_retired);
}
