#include "core/base62.h"

#include "pg/errors.h"
#include "pg/guard.h"
#include "pg/text.h"

extern "C" {
#include "utils/builtins.h"
}

using namespace shortener;

SHORTENER_FUNCTION(shortener_base62_encode) {
    const int64 value = PG_GETARG_INT64(0);
    if (value < 0)
        raise(Base62Error::negative, psprintf(INT64_FORMAT, value));
    text* result = static_cast<text*>(palloc(VARHDRSZ + base62_max_length));
    const std::size_t length =
        base62_encode(value, std::span<char, base62_max_length>(VARDATA(result), base62_max_length));
    SET_VARSIZE(result, VARHDRSZ + length);
    PG_RETURN_TEXT_P(result);
}

SHORTENER_FUNCTION(shortener_base62_decode) {
    const std::string_view digits = text_argument(fcinfo, 0);
    std::int64_t value;
    if (const Base62Error error = base62_decode(digits, value); error != Base62Error::none)
        raise(error, digits);
    PG_RETURN_INT64(value);
}
