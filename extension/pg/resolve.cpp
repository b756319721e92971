// What a code means, as far as resolve(), which is SQL, leaves it to functions.

#include <algorithm>

#include "core/cache_times.h"
#include "core/code.h"

#include "pg/guard.h"
#include "pg/text.h"
#include "pg/used_codes.h"

extern "C" {
#include "access/xact.h"
#include "utils/timestamp.h"
}

using namespace shortener;

SHORTENER_FUNCTION(shortener_live_status) {
    enum { redirect_status, is_active, deleted_at, expires_at, workspace_id };
    if (PG_ARGISNULL(redirect_status) || PG_ARGISNULL(is_active) || !PG_GETARG_BOOL(is_active) ||
        !PG_ARGISNULL(deleted_at) || PG_ARGISNULL(workspace_id))
        PG_RETURN_NULL();
    if (!PG_ARGISNULL(expires_at) && PG_GETARG_TIMESTAMPTZ(expires_at) <= GetCurrentStatementStartTimestamp())
        PG_RETURN_NULL();
    const std::optional<Workspace> workspace = find_workspace_if_any(PG_GETARG_INT32(workspace_id));
    if (!workspace || workspace->is_deleted)
        PG_RETURN_NULL();
    PG_RETURN_INT32(PG_GETARG_INT16(redirect_status));
}

SHORTENER_FUNCTION(shortener_missing_status) {
    constexpr int gone = 410, unknown = 404;
    if (PG_ARGISNULL(1) || !is_code(text_argument(fcinfo, 1)))
        PG_RETURN_INT32(unknown);
    const std::optional<int32> workspace_id =
        serving_workspace(PG_ARGISNULL(0) ? std::string_view() : text_argument(fcinfo, 0));
    const bool is_gone = workspace_id && is_retired(*workspace_id, text_argument(fcinfo, 1));
    PG_RETURN_INT32(is_gone ? gone : unknown);
}

SHORTENER_FUNCTION(shortener_cache_seconds) {
    enum { link_id, live_status, expires_at };
    if (PG_ARGISNULL(link_id))
        PG_RETURN_INT32(longest_unknown.count());
    if (PG_ARGISNULL(live_status))
        PG_RETURN_INT32(longest_gone.count());
    int64 seconds = longest_live.count();
    if (!PG_ARGISNULL(expires_at))
        seconds = std::clamp<int64>(
            (PG_GETARG_TIMESTAMPTZ(expires_at) - GetCurrentStatementStartTimestamp()) / USECS_PER_SEC, 0,
            seconds);
    PG_RETURN_INT32(static_cast<int32>(seconds));
}
