#include "core/host.h"

#include "pg/guard.h"
#include "pg/text.h"

extern "C" {
#include "utils/builtins.h"
}

using namespace shortener;

SHORTENER_FUNCTION(shortener_random_key) {
    constexpr int size = 16;
    bytea* const key = static_cast<bytea*>(palloc(VARHDRSZ + size));
    SET_VARSIZE(key, VARHDRSZ + size);
    if (!pg_strong_random(VARDATA(key), size))
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not generate random bytes")));
    PG_RETURN_BYTEA_P(key);
}

SHORTENER_FUNCTION(shortener_host_from_header) {
    const std::string_view host = text_argument(fcinfo, 0);
    text* const key = static_cast<text*>(palloc(VARHDRSZ + host.size()));
    SET_VARSIZE(key, VARHDRSZ + host_from_header(host, {VARDATA(key), host.size()}).size());
    PG_RETURN_TEXT_P(key);
}
