#include "pg/owner_section.h"

extern "C" {
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "commands/trigger.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
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

// No trigger is harmless: the function may be ours, and the condition of the trigger somebody else's. Nor is
// a foreign key that refers to the table: the triggers of the referring table would fire in the section. Nor
// is what is deferred, which would run after it.
void require_no_trigger(Oid table, const char* name) {
    const Relation relation = table_open(table, NoLock);
    if (relation->trigdesc && relation->trigdesc->numtriggers > 0) {
        const Trigger& trigger = relation->trigdesc->triggers[0];
        const char* const constraint = trigger.tgisinternal && OidIsValid(trigger.tgconstraint)
                                           ? get_constraint_name(trigger.tgconstraint)
                                           : nullptr;
        const Oid holder =
            OidIsValid(trigger.tgconstrrelid) && RI_FKey_trigger_type(trigger.tgfoid) == RI_TRIGGER_PK
                ? trigger.tgconstrrelid
                : table;
        ereport(
            ERROR,
            (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
             constraint
                 ? errmsg("table \"shortener.%s\" must not be part of constraint \"%s\"", name, constraint)
                 : errmsg("table \"shortener.%s\" must not have trigger \"%s\"", name, trigger.tgname),
             errdetail("Code of other roles could run with the rights of the owner of the table."),
             constraint
                 ? errhint("ALTER TABLE %s DROP CONSTRAINT %s;",
                           quote_qualified_identifier(get_namespace_name(get_rel_namespace(holder)),
                                                      get_rel_name(holder)),
                           quote_identifier(constraint))
                 : errhint("DROP TRIGGER %s ON shortener.%s;", quote_identifier(trigger.tgname), name)));
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
        require_no_trigger(table.oid, name);
        return;
    }
    ListCell* cell;
    foreach (cell, find_all_inheritors(table.oid, mode, nullptr)) { // the table itself comes first
        const Oid partition = lfirst_oid(cell);
        const char* const partition_name = get_rel_name(partition);
        require_table_of(owner, described(partition), partition_name);
        require_no_trigger(partition, partition_name);
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
    settings_level_ = NewGUCNestLevel();
}

void OwnerSection::end() const {
    AtEOXact_GUC(false, settings_level_);
    SetUserIdAndSecContext(user_, context_);
}

} // namespace shortener
