#include "database/result.h"

namespace shortener {

namespace {

struct Advice {
    std::string_view sqlstate, text;
};

constexpr Advice advice[] = {
    {"3F000", "run CREATE EXTENSION shortener CASCADE and CALL shortener.install() in this database"},
    {"42883", "run CREATE EXTENSION shortener or ALTER EXTENSION shortener UPDATE in this database"},
    {"42501", grant_advice},
    {"57014", "the database took too long"},
};

} // namespace

std::string explain(const PGresult* result) {
    std::string text;
    for (const int field : {PG_DIAG_MESSAGE_PRIMARY, PG_DIAG_MESSAGE_DETAIL, PG_DIAG_MESSAGE_HINT})
        if (const char* part = PQresultErrorField(result, field))
            text.append(text.empty() ? "" : "; ").append(part);
    for (const Advice& known : advice)
        if (known.sqlstate == sqlstate(result))
            text.append("; ").append(known.text);
    return text.empty() ? "the database gave an answer to another question" : text;
}

} // namespace shortener
