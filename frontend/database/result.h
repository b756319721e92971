#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include <libpq-fe.h>

namespace shortener {

inline std::string_view text_at(const PGresult* result, int row, int column) {
    return {PQgetvalue(result, row, column), static_cast<std::size_t>(PQgetlength(result, row, column))};
}

// 0 for NULL.
inline std::int64_t number_at(const PGresult* result, int row, int column) {
    std::int64_t value = 0;
    const std::string_view text = text_at(result, row, column);
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
}

inline bool boolean_at(const PGresult* result, int row, int column) {
    return text_at(result, row, column) == "t";
}

inline std::string_view sqlstate(const PGresult* result) {
    const char* state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    return state ? state : "";
}

// Behind an error of rights.
inline constexpr std::string_view grant_advice =
    "grant the role what it needs: SELECT shortener.grant_access('ROLE', 'redirector')";

// What a failed statement says, for the log: with what to do about it where that is known.
std::string explain(const PGresult* result);

} // namespace shortener
