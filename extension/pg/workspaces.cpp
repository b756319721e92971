#include "pg/workspaces.h"

#include "pg/errors.h"
#include "pg/guard.h"
#include "pg/owner_section.h"
#include "pg/plans.h"
#include "pg/session.h"
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

Workspace workspace_of(const Row& row) {
    Workspace workspace{};
    workspace.id = row.required<int32>(1);
    workspace.code_style = code_style(row.required<std::string_view>(2));
    workspace.rules = url_rules_from_array(DatumGetArrayTypeP(row.required<Datum>(3)));
    workspace.default_expiry = row.get<TimestampTz>(4).value_or(DT_NOEND);
    workspace.redirect_status = row.required<int16>(5);
    row.required<std::string_view>(6).copy(reinterpret_cast<char*>(workspace.key), sizeof workspace.key);
    return workspace;
}

// One of the two is NULL.
Rows select_workspace(std::optional<Datum> slug, std::optional<Datum> id) {
    static KeptStatement statement(
        "SELECT w.id::pg_catalog.int4, w.code_style::pg_catalog.text, w.rules::pg_catalog.text[],"
        " pg_catalog.statement_timestamp() OPERATOR(pg_catalog.+) w.default_ttl::pg_catalog.interval,"
        " w.redirect_status::pg_catalog.int2, k.key::pg_catalog.bytea, w.deleted_at IS NOT NULL "
        "FROM shortener.workspace w JOIN shortener.workspace_key k ON k.workspace_id OPERATOR(pg_catalog.=) "
        "w.id "
        "WHERE w.slug OPERATOR(pg_catalog.=) $slug OR w.id OPERATOR(pg_catalog.=) $id",
        {{"slug", TEXTOID}, {"id", INT4OID}});
    const auto section = OwnerSection::to_read({"workspace", "workspace_key"});
    const Rows rows = statement.run({{"slug", slug}, {"id", id}});
    section.end();
    return rows;
}

} // namespace

Workspace find_workspace(std::string_view slug) {
    const std::optional<int32> working = slug.data() ? std::nullopt : working_workspace();
    if (working == 0)
        raise_no_workspace();
    if (!slug.data())
        slug = settings.default_workspace;
    const Rows rows = working ? select_workspace(std::nullopt, Int32GetDatum(*working))
                              : select_workspace(text_datum(slug), std::nullopt);
    if (rows.empty() || rows[0].required<bool>(7) || !may_use_workspace(rows[0].required<int32>(1)))
        raise(LinkError::unknown_workspace, slug);
    return workspace_of(rows[0]);
}

Workspace find_workspace(int32 id) {
    const Rows rows = select_workspace(std::nullopt, Int32GetDatum(id));
    if (rows.empty())
        ereport(ERROR, (errcode(ERRCODE_FOREIGN_KEY_VIOLATION), errmsg("workspace %d has no key", id)));
    return workspace_of(rows[0]);
}

} // namespace shortener
