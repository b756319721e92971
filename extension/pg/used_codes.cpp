#include "pg/used_codes.h"

#include <optional>

#include "pg/guard.h"
#include "pg/owner_section.h"
#include "pg/text.h"

extern "C" {
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "utils/builtins.h"
}

namespace shortener {

bool find_used_codes(const Workspace& workspace, const Code* codes, const int64* ids, int count, bool* used) {
    // A sequence may have gone back to numbers already retired, after a failover by logical replication for
    // example.
    static KeptStatement statement(
        "SELECT c.ordinal::pg_catalog.int4 FROM ROWS FROM (pg_catalog.unnest($codes), "
        "pg_catalog.unnest($ids))"
        " WITH ORDINALITY c (code, id, ordinal) CROSS JOIN LATERAL ("
        " SELECT FROM shortener.retired_number r WHERE r.workspace_id OPERATOR(pg_catalog.=) $workspace"
        "  AND r.highest OPERATOR(pg_catalog.>=) c.id AND $is_scrambled"
        " UNION ALL SELECT FROM shortener.retired_code r WHERE r.workspace_id OPERATOR(pg_catalog.=) "
        "$workspace"
        "  AND r.short_code OPERATOR(pg_catalog.=) c.code"
        " UNION ALL SELECT FROM shortener.reserved_code r"
        "  WHERE r.code OPERATOR(pg_catalog.=) pg_catalog.lower(c.code COLLATE pg_catalog.\"C\")"
        " OFFSET 0) u",
        {{"workspace", INT4OID}, {"codes", TEXTARRAYOID}, {"ids", INT8ARRAYOID}, {"is_scrambled", BOOLOID}});
    const auto section = OwnerSection::to_read({"retired_number", "retired_code", "reserved_code"});
    const Rows rows =
        statement.read_latest({{"workspace", Int32GetDatum(workspace.id)},
                               {"codes", code_array(codes, count)},
                               {"ids", id_array(ids, count)},
                               {"is_scrambled", BoolGetDatum(workspace.code_style == CodeStyle::scrambled)}});
    section.end();
    for (uint64 i = 0; i < rows.count(); i++)
        used[rows[i].required<int32>(1) - 1] = true;
    const bool found = !rows.empty();
    rows.release();
    return found;
}

int64 number_in_code(const LinkRow& row) {
    const std::optional<Workspace> workspace = find_workspace_if_any(row.workspace());
    return workspace ? number_of(*workspace, row.code()).value_or(-1) : -1;
}

void refuse_used_codes(Codes& codes) {
    if (codes.empty())
        return;
    static KeptStatement refused(
        "SELECT n.short_code, r.reserved FROM ROWS FROM (pg_catalog.unnest($workspaces), "
        "pg_catalog.unnest($codes),"
        " pg_catalog.unnest($numbers)) n (workspace_id, short_code, number) CROSS JOIN LATERAL ("
        " SELECT true AS reserved FROM shortener.reserved_code"
        "  WHERE code OPERATOR(pg_catalog.=) pg_catalog.lower(n.short_code COLLATE pg_catalog.\"C\")"
        " UNION ALL"
        " SELECT false FROM shortener.retired_code"
        "  WHERE workspace_id OPERATOR(pg_catalog.=) n.workspace_id"
        "    AND short_code OPERATOR(pg_catalog.=) n.short_code"
        " UNION ALL"
        " SELECT false FROM shortener.retired_number"
        "  WHERE workspace_id OPERATOR(pg_catalog.=) n.workspace_id"
        "    AND highest OPERATOR(pg_catalog.>=) n.number AND n.number OPERATOR(pg_catalog.>=) 0"
        " OFFSET 0) r LIMIT 1",
        {{"workspaces", INT4ARRAYOID}, {"codes", TEXTARRAYOID}, {"numbers", INT8ARRAYOID}});
    const auto section = OwnerSection::to_read({"reserved_code", "retired_code", "retired_number"});
    const Codes::Parameters parameters = codes.take();
    const Rows rows = refused.run_latest({parameters.workspaces, parameters.codes, parameters.numbers});
    section.end();
    if (rows.empty()) {
        rows.release();
        return;
    }
    const char* code = TextDatumGetCString(rows[0].required<Datum>(1));
    if (rows[0].required<bool>(2))
        ereport(ERROR, (errcode(ERRCODE_RESERVED_NAME), errmsg("short code \"%s\" is reserved", code),
                        errdetail("Reserved words are in shortener.reserved_code."),
                        errhint("Choose another alias.")));
    ereport(ERROR, (errcode(ERRCODE_UNIQUE_VIOLATION), errmsg("short code \"%s\" was used before", code),
                    errdetail("The code of a removed link is never given to another one."),
                    errhint("Choose another alias.")));
}

// Rows that another transaction holds stay as they are: nobody waits. Above READ COMMITTED, where a row that
// another has taken in is an error, all do.
void RetiredNumbers::retire() {
    if (count_ == 0)
        return;
    static KeptStatement statement(
        "WITH taken_in AS (DELETE FROM shortener.retired_number r WHERE r.ctid OPERATOR(pg_catalog.=) ANY "
        "(ARRAY("
        "  SELECT o.ctid FROM shortener.retired_number o"
        "  WHERE $takes_in AND o.workspace_id OPERATOR(pg_catalog.=) ANY ($workspaces) FOR UPDATE SKIP "
        "LOCKED))"
        " RETURNING r.workspace_id, r.highest, r.codes) "
        "INSERT INTO shortener.retired_number AS r (workspace_id, highest, codes)"
        " SELECT n.workspace_id, pg_catalog.max(n.highest), pg_catalog.sum(n.codes)::pg_catalog.int8 FROM ("
        "  SELECT u.workspace_id, u.highest, u.codes FROM ROWS FROM (pg_catalog.unnest($workspaces),"
        "   pg_catalog.unnest($highest), pg_catalog.unnest($codes)) u (workspace_id, highest, codes)"
        "  UNION ALL SELECT t.workspace_id, t.highest, t.codes FROM taken_in t) n"
        " GROUP BY n.workspace_id ORDER BY n.workspace_id"
        " ON CONFLICT (workspace_id, highest) DO UPDATE"
        "  SET codes = r.codes OPERATOR(pg_catalog.+) excluded.codes",
        {{"takes_in", BOOLOID},
         {"workspaces", INT4ARRAYOID},
         {"highest", INT8ARRAYOID},
         {"codes", INT8ARRAYOID}});
    const auto array = [this](const auto& numbers, Oid type) {
        return array_from(count_, type, [&](int i) { return static_cast<Datum>(numbers[i]); });
    };
    const auto section = OwnerSection::to_write({"retired_number"});
    statement.run({{"takes_in", BoolGetDatum(!IsolationUsesXactSnapshot())},
                   {"workspaces", array(workspaces_, INT4OID)},
                   {"highest", array(highest_, INT8OID)},
                   {"codes", array(codes_, INT8OID)}});
    section.end();
    count_ = 0;
}

void retire(Codes& codes) {
    if (codes.empty())
        return;
    static KeptStatement statement(
        "INSERT INTO shortener.retired_code (workspace_id, short_code)"
        " SELECT o.workspace_id, o.short_code FROM ROWS FROM (pg_catalog.unnest($workspaces), "
        "pg_catalog.unnest($codes))"
        " o (workspace_id, short_code) WHERE NOT EXISTS (SELECT FROM shortener.retired_code r"
        " WHERE r.workspace_id OPERATOR(pg_catalog.=) o.workspace_id"
        " AND r.short_code OPERATOR(pg_catalog.=) o.short_code OFFSET 0)",
        {{"workspaces", INT4ARRAYOID}, {"codes", TEXTARRAYOID}});
    const auto section = OwnerSection::to_write({"retired_code"}, {"link"});
    const Codes::Parameters parameters = codes.take();
    statement.run({parameters.workspaces, parameters.codes});
    section.end();
}

bool is_retired(int32 workspace_id, std::string_view code) {
    static KeptStatement statement("SELECT FROM shortener.retired_code r"
                                   " WHERE r.workspace_id OPERATOR(pg_catalog.=) $workspace"
                                   " AND r.short_code OPERATOR(pg_catalog.=) $code "
                                   "UNION ALL SELECT FROM shortener.retired_number r"
                                   " WHERE r.workspace_id OPERATOR(pg_catalog.=) $workspace"
                                   " AND r.highest OPERATOR(pg_catalog.>=) $number LIMIT 1",
                                   {{"workspace", INT4OID}, {"code", TEXTOID}, {"number", INT8OID}});
    const std::optional<Workspace> workspace = find_workspace_if_any(workspace_id);
    const std::optional<int64> number = workspace ? number_of(*workspace, code) : std::nullopt;
    SPI_connect();
    const auto section = OwnerSection::to_read({"retired_code", "retired_number"});
    const bool is_retired =
        !statement
             .read_active({{"workspace", Int32GetDatum(workspace_id)},
                           {"code", text_datum(code)},
                           {"number", number ? std::optional<Datum>(Int64GetDatum(*number)) : std::nullopt}})
             .empty();
    section.end();
    SPI_finish();
    return is_retired;
}

} // namespace shortener
