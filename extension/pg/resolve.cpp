// What resolve(), which is SQL, cannot say in it.

#include "core/code.h"

#include "pg/guard.h"
#include "pg/link_code.h"
#include "pg/owner_section.h"
#include "pg/plans.h"
#include "pg/text.h"

extern "C" {
#include "catalog/pg_type.h"
}

using namespace shortener;

// Asked only for a code that no link has. A number up to the highest that has been removed may be one whose
// link was never made, or is not yet committed: so caches keep this answer no longer than that nothing is
// known of a code.
SHORTENER_FUNCTION(shortener_is_retired) {
    if (PG_ARGISNULL(0) || PG_ARGISNULL(1) || !is_code(text_argument(fcinfo, 1)))
        PG_RETURN_BOOL(false);
    static KeptStatement statement("SELECT FROM shortener.retired_code r"
                                   " WHERE r.workspace_id OPERATOR(pg_catalog.=) $workspace"
                                   " AND r.short_code OPERATOR(pg_catalog.=) $code "
                                   "UNION ALL SELECT FROM shortener.retired_number r"
                                   " WHERE r.workspace_id OPERATOR(pg_catalog.=) $workspace"
                                   " AND r.highest OPERATOR(pg_catalog.>=) $number LIMIT 1",
                                   {{"workspace", INT4OID}, {"code", TEXTOID}, {"number", INT8OID}});
    const std::optional<Workspace> workspace = find_workspace_if_any(PG_GETARG_INT32(0));
    const std::optional<int64> number =
        workspace ? number_of(*workspace, text_argument(fcinfo, 1)) : std::nullopt;
    SPI_connect();
    const auto section = OwnerSection::to_read({"retired_code", "retired_number"});
    const bool is_retired =
        !statement
             .read_active({{"workspace", PG_GETARG_DATUM(0)},
                           {"code", PG_GETARG_DATUM(1)},
                           {"number", number ? std::optional<Datum>(Int64GetDatum(*number)) : std::nullopt}})
             .empty();
    section.end();
    SPI_finish();
    PG_RETURN_BOOL(is_retired);
}
