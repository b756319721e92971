#include "pg/notifications.h"

#include "core/siphash.h"

#include "pg/guard.h"
#include "pg/installation.h"
#include "pg/owner_section.h"
#include "pg/plans.h"
#include "pg/text.h"

extern "C" {
#include "commands/async.h"
#include "commands/trigger.h"
#include "lib/stringinfo.h"
#include "utils/datum.h"
}

using namespace shortener;

namespace {

constexpr const char* channel = "shortener";
constexpr const char* flush = "flush";

// The key of the tags, in the memory of the result.
Datum notification_key() {
    static KeptStatement statement("SELECT notification_key::pg_catalog.bytea FROM shortener.installation",
                                   {});
    const auto section = OwnerSection::to_read({"installation"});
    const Rows rows = statement.run();
    section.end();
    if (rows.empty())
        elog(ERROR, "shortener.installation has no row");
    return rows[0].required<Datum>(1);
}

} // namespace

namespace shortener {

void ChangedCodes::notify() const {
    if (count_ == 0)
        return;
    if (count_ > max_tags) {
        Async_Notify(channel, flush);
        return;
    }
    unsigned char bytes[16] = {};
    text_view(notification_key()).copy(reinterpret_cast<char*>(bytes), sizeof bytes);
    const SipKey key = SipKey::from_bytes(bytes);
    StringInfoData payload;
    initStringInfo(&payload);
    for (int i = 0; i < count_; i++) {
        const std::string_view code(codes_[i].characters, codes_[i].length);
        appendStringInfo(&payload, "%s%016llx", i ? " " : "",
                         static_cast<unsigned long long>(code_tag(key, codes_[i].workspace_id, code)));
    }
    Async_Notify(channel, payload.data);
}

} // namespace shortener

SHORTENER_FUNCTION(shortener_notification_key) {
    require_install();
    const MemoryContext caller = CurrentMemoryContext;
    SPI_connect();
    const Datum key = notification_key();
    MemoryContextSwitchTo(caller);
    const Datum copy = datumCopy(key, false, -1);
    SPI_finish();
    return copy;
}

SHORTENER_FUNCTION(shortener_flush_caches) {
    if (!CALLED_AS_TRIGGER(fcinfo))
        ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
                        errmsg("function was not called by trigger manager")));
    Async_Notify(channel, flush);
    return 0;
}
