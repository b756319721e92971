#include "pg/workspaces.h"

#include "pg/errors.h"
#include "pg/guard.h"
#include "pg/owner_section.h"
#include "pg/plans.h"
#include "pg/settings.h"
#include "pg/url.h"

extern "C" {
#include "catalog/pg_type.h"
#include "utils/array.h"
}

namespace shortener {

namespace {

CodeStyle code_style(std::string_view name) {
    return name == "sequential"  ? CodeStyle::sequential
           : name == "snowflake" ? CodeStyle::snowflake
                                 : CodeStyle::scrambled;
}

} // namespace

Workspace find_workspace(std::string_view slug) {
    static KeptStatement statement("SELECT w.id, w.code_style, w.rules, pg_catalog.statement_timestamp() "
                                   "OPERATOR(pg_catalog.+) w.default_ttl,"
                                   " w.redirect_status, k.key "
                                   "FROM shortener.workspace w JOIN shortener.workspace_key k ON "
                                   "k.workspace_id OPERATOR(pg_catalog.=) w.id "
                                   "WHERE w.slug OPERATOR(pg_catalog.=) $slug",
                                   {{"slug", TEXTOID}});
    if (!slug.data())
        slug = settings.default_workspace;
    const auto section = OwnerSection::to_read({"workspace", "workspace_key"});
    const Rows rows = statement.run({{"slug", text_datum(slug)}});
    section.end();
    if (rows.empty())
        raise(LinkError::unknown_workspace, slug);
    const Row row = rows[0];
    Workspace workspace{};
    workspace.id = row.required<int32>(1);
    workspace.code_style = code_style(row.required<std::string_view>(2));
    workspace.rules = url_rules_from_array(DatumGetArrayTypeP(row.required<Datum>(3)));
    workspace.default_expiry = row.get<TimestampTz>(4).value_or(DT_NOEND);
    workspace.redirect_status = row.required<int16>(5);
    row.required<std::string_view>(6).copy(reinterpret_cast<char*>(workspace.key), sizeof workspace.key);
    return workspace;
}

} // namespace shortener
