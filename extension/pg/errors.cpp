#include "pg/errors.h"

extern "C" {
#include "postgres.h"

#include "mb/pg_wchar.h"
}

namespace shortener {

const ErrorText& error_text(Base62Error error) noexcept {
    static constexpr ErrorText texts[] = {
        {ERRCODE_INTERNAL_ERROR, "no error", nullptr, nullptr},
        {ERRCODE_INVALID_TEXT_REPRESENTATION, "base62 code is empty", nullptr, nullptr},
        {ERRCODE_INVALID_TEXT_REPRESENTATION, "base62 code \"%s\" has a character outside 0-9a-zA-Z", nullptr,
         nullptr},
        {ERRCODE_INVALID_TEXT_REPRESENTATION, "base62 code \"%s\" has a leading zero",
         "Each number has one code; only zero itself starts with 0.", nullptr},
        {ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE, "base62 code \"%s\" is out of range for type bigint",
         "The largest code is \"aZl8N0y58M7\", 9223372036854775807.", nullptr},
        {ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE, "cannot encode the negative number %s in base62",
         "Base62 codes stand for 0 to 9223372036854775807.", nullptr},
    };
    return texts[static_cast<int>(error)];
}

void raise_error(const ErrorText& text, std::string_view input) {
    constexpr int readable = 64;
    const int length = static_cast<int>(input.size());
    char* shown = length <= readable
                      ? pnstrdup(input.data(), length)
                      : psprintf("%.*s…", pg_mbcliplen(input.data(), length, readable), input.data());
    ereport(ERROR, (errcode(text.sqlstate), errmsg(text.message, shown),
                    text.detail ? errdetail("%s", text.detail) : 0, text.hint ? errhint("%s", text.hint) : 0));
}

} // namespace shortener
