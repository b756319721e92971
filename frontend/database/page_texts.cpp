#include "database/page_texts.h"

#include "database/result.h"

namespace shortener {

namespace {

constexpr const char* texts_sql =
    "SELECT t.not_found_text, t.gone_text, pg_catalog.pg_is_in_recovery()"
    " FROM pg_catalog.unnest($1::bigint[]) WITH ORDINALITY w (id, ordinal)"
    " LEFT JOIN LATERAL shortener.page_texts(w.id) t ON true ORDER BY w.ordinal";

std::optional<std::string> optional_text(const PGresult* result, int row, int column) {
    if (PQgetisnull(result, row, column))
        return std::nullopt;
    return std::string(text_at(result, row, column));
}

} // namespace

Statement TextsQueue::statement(const std::vector<Asked>& batch) const {
    std::string ids;
    for (const Asked& asked : batch)
        ids.append(ids.empty() ? "{" : ",")
            .append(std::to_string(static_cast<const TextsQuestion&>(*asked).workspace_id()));
    return {texts_sql, {std::move(ids.append("}"))}};
}

std::optional<TextsAnswer> TextsQueue::read(const PGresult* result, int row, Clock::time_point) {
    return TextsAnswer{{optional_text(result, row, 0), optional_text(result, row, 1)},
                       boolean_at(result, row, 2)};
}

} // namespace shortener
