#include "pg/owner_section.h"

extern "C" {
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_proc.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"
}

namespace shortener {

namespace {

struct Table {
    Oid oid;
    Oid owner;
    char kind;
    bool has_children;
};

// Of a table that is locked.
Table described(Oid table) {
    const HeapTuple row = SearchSysCache1(RELOID, ObjectIdGetDatum(table));
    if (!HeapTupleIsValid(row))
        elog(ERROR, "cache lookup failed for relation %u", table);
    const Form_pg_class form = reinterpret_cast<Form_pg_class>(GETSTRUCT(row));
    const Table result{table, form->relowner, form->relkind, form->relhassubclass};
    ReleaseSysCache(row);
    return result;
}

[[noreturn]] void raise_missing(const char* name) {
    ereport(ERROR,
            (errcode(ERRCODE_UNDEFINED_TABLE), errmsg("relation \"shortener.%s\" does not exist", name),
             errhint("CALL shortener.install();")));
}

// Locks the table, so that until the end of the transaction it is the one of that name and stays as it is.
Table lock_table(const char* name, Oid schema, LOCKMODE mode) {
    for (;;) {
        const Oid table = get_relname_relid(name, schema);
        if (!OidIsValid(table))
            raise_missing(name);
        LockRelationOid(table, mode);
        if (get_relname_relid(name, schema) == table)
            return described(table);
        UnlockRelationOid(table, mode); // another has its name now
    }
}

void require_table_of(Oid owner, const Table& table, const char* name) {
    if (table.kind != RELKIND_RELATION && table.kind != RELKIND_PARTITIONED_TABLE)
        ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE), errmsg("\"shortener.%s\" is not a table", name)));
    if (table.owner != owner)
        ereport(ERROR,
                (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
                 errmsg("table \"shortener.%s\" does not belong to role \"%s\"", name,
                        GetUserNameFromId(owner, true)),
                 errdetail("All tables of shortener must belong to the owner of shortener.installation.")));
}

// Triggers of foreign keys are the system's own; ours make sure themselves that they are where they belong.
void require_no_foreign_trigger(Oid table, const char* name) {
    const Relation relation = table_open(table, NoLock);
    const TriggerDesc* const triggers = relation->trigdesc;
    for (int i = 0; triggers && i < triggers->numtriggers; i++) {
        const Trigger& trigger = triggers->triggers[i];
        if (trigger.tgisinternal)
            continue;
        const Oid extension = getExtensionOfObject(ProcedureRelationId, trigger.tgfoid);
        if (!OidIsValid(extension) || extension != get_extension_oid("shortener", true))
            ereport(ERROR,
                    (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
                     errmsg("table \"shortener.%s\" must not have trigger \"%s\"", name, trigger.tgname),
                     errdetail("It would run with the rights of the owner of the table."),
                     errhint("DROP TRIGGER %s ON shortener.%s;", quote_identifier(trigger.tgname), name)));
    }
    table_close(relation, NoLock);
}

// What is written to a partitioned table goes to its partitions. A child of another table gets nothing that
// is inserted, but all else.
void require_writable(Oid owner, const Table& table, const char* name, LOCKMODE mode) {
    require_table_of(owner, table, name);
    if (table.kind != RELKIND_PARTITIONED_TABLE) {
        if (table.has_children)
            ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE),
                            errmsg("table \"shortener.%s\" has child tables", name)));
        require_no_foreign_trigger(table.oid, name);
        return;
    }
    ListCell* cell;
    foreach (cell, find_all_inheritors(table.oid, mode, nullptr)) { // the table itself comes first
        const Oid partition = lfirst_oid(cell);
        const char* const partition_name = get_rel_name(partition);
        require_table_of(owner, described(partition), partition_name);
        require_no_foreign_trigger(partition, partition_name);
    }
}

} // namespace

OwnerSection::OwnerSection(Tables read, Tables written) {
    const Oid schema = get_namespace_oid("shortener", false);
    const Oid owner = lock_table("installation", schema, AccessShareLock).owner;
    for (const char* const name : read)
        require_table_of(owner, lock_table(name, schema, AccessShareLock), name);
    for (const char* const name : written) {
        require_writable(owner, lock_table(name, schema, RowExclusiveLock), name, RowExclusiveLock);
    }
    GetUserIdAndSecContext(&user_, &context_);
    SetUserIdAndSecContext(owner, context_ | SECURITY_LOCAL_USERID_CHANGE | SECURITY_RESTRICTED_OPERATION |
                                      SECURITY_NOFORCE_RLS);
}

void OwnerSection::end() const {
    SetUserIdAndSecContext(user_, context_);
}

} // namespace shortener
