#pragma once

// Between Postgres's text and std::string_view.

#include <string_view>

extern "C" {
#include "postgres.h"

#include "fmgr.h"
#include "utils/builtins.h"
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif
}

namespace shortener {

// The bytes of a text value; they live as long as the value, or, when it was compressed, as the current
// memory context.
inline std::string_view text_view(Datum datum) {
    const struct varlena* value = PG_DETOAST_DATUM_PACKED(datum);
    return {VARDATA_ANY(value), static_cast<std::size_t>(VARSIZE_ANY_EXHDR(value))};
}

inline Datum text_datum(std::string_view text) {
    return PointerGetDatum(cstring_to_text_with_len(text.data(), static_cast<int>(text.size())));
}

inline std::string_view text_argument(FunctionCallInfo fcinfo, int index) {
    return text_view(fcinfo->args[index].value);
}

} // namespace shortener
