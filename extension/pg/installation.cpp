#include "pg/installation.h"

#include <string_view>

#include "pg/guard.h"

extern "C" {
#include "access/genam.h"
#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_namespace.h"
#include "commands/extension.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
}

using namespace shortener;

namespace {

// The answer is kept until one of the two tables changes, because every function asks.
struct Known {
    bool complete;
    Oid installation, link;
    uint64 generation; // of what was heard of changes
};

Known known;

void relation_changed(Datum, Oid relation) {
    if (!OidIsValid(relation) || relation == known.installation || relation == known.link)
        known.complete = false;
    known.generation++;
}

// DROP EXTENSION takes the triggers away with their functions, and leaves the tables.
bool has_triggers(Relation link) {
    constexpr const char* functions[] = {"before_link_update", "after_link_insert", "after_link_update",
                                         "after_link_delete"};
    for (const std::string_view wanted : functions) {
        bool found = false;
        for (int i = 0; link->trigdesc && i < link->trigdesc->numtriggers && !found; i++) {
            const Oid function = link->trigdesc->triggers[i].tgfoid;
            const char* const name = get_func_name(function);
            found = name && name == wanted && get_func_namespace(function) == RelationGetNamespace(link);
        }
        if (!found)
            return false;
    }
    return true;
}

// Whether Citus has made the table one of its own, which lists them in a table of the same name in each
// database. The rows are on other servers then, and a query that is taken into another one after Citus has
// looked at it finds none.
bool is_distributed(Oid table) {
    const Oid citus = get_extension_oid("citus", true);
    const Oid list =
        OidIsValid(citus) ? get_relname_relid("pg_dist_partition", PG_CATALOG_NAMESPACE) : InvalidOid;
    if (!OidIsValid(list) || getExtensionOfObject(RelationRelationId, list) != citus)
        return false;
    const AttrNumber table_column = get_attnum(list, "logicalrelid");
    if (table_column == InvalidAttrNumber)
        return false;
    const Relation relation = table_open(list, AccessShareLock);
    ScanKeyData key;
    ScanKeyInit(&key, table_column, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(table));
    const SysScanDesc scan = systable_beginscan(relation, InvalidOid, false, nullptr, 1, &key);
    const bool found = HeapTupleIsValid(systable_getnext(scan));
    systable_endscan(scan);
    table_close(relation, AccessShareLock);
    return found;
}

[[noreturn]] void raise_incomplete(const char* message) {
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE), errmsg("%s", message),
                    errhint("CALL shortener.install();")));
}

} // namespace

namespace shortener {

void require_install() {
    static bool is_listening = false;
    if (known.complete)
        return;
    if (!is_listening) {
        CacheRegisterRelcacheCallback(relation_changed, 0);
        is_listening = true;
    }
    const uint64 generation = known.generation;
    const Oid schema = get_namespace_oid("shortener", true);
    known.installation = OidIsValid(schema) ? get_relname_relid("installation", schema) : InvalidOid;
    known.link = OidIsValid(schema) ? get_relname_relid("link", schema) : InvalidOid;
    if (!OidIsValid(known.installation) || !OidIsValid(known.link))
        raise_incomplete("the tables of shortener are not installed");
    const Relation link = table_open(known.link, AccessShareLock);
    if (!has_triggers(link))
        raise_incomplete("the triggers of the tables of shortener are missing");
    if (is_distributed(known.link))
        ereport(ERROR,
                (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                 errmsg("shortener does not support tables distributed by Citus"),
                 errhint("SELECT undistribute_table('shortener.link', cascade_via_foreign_keys => true);")));
    table_close(link, NoLock);
    known.complete = generation == known.generation;
}

} // namespace shortener

SHORTENER_FUNCTION(shortener_require_install) {
    require_install();
    PG_RETURN_BOOL(true);
}
