#include "pg/owner_section.h"

extern "C" {
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
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
        HeapTuple row = get_relname_relid(name, schema) == table
                            ? SearchSysCache1(RELOID, ObjectIdGetDatum(table))
                            : nullptr;
        if (HeapTupleIsValid(row)) {
            const Form_pg_class form = reinterpret_cast<Form_pg_class>(GETSTRUCT(row));
            const Table locked{table, form->relowner, form->relkind, form->relhassubclass};
            ReleaseSysCache(row);
            return locked;
        }
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
void require_no_foreign_trigger(const Table& table, const char* name) {
    if (table.kind != RELKIND_RELATION || table.has_children)
        ereport(ERROR, (errcode(ERRCODE_WRONG_OBJECT_TYPE),
                        errmsg("table \"shortener.%s\" has partitions or child tables", name)));
    const Relation relation = table_open(table.oid, NoLock);
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

} // namespace

OwnerSection::OwnerSection(Tables read, Tables written) {
    const Oid schema = get_namespace_oid("shortener", false);
    const Oid owner = lock_table("installation", schema, AccessShareLock).owner;
    for (const char* const name : read)
        require_table_of(owner, lock_table(name, schema, AccessShareLock), name);
    for (const char* const name : written) {
        const Table table = lock_table(name, schema, RowExclusiveLock);
        require_table_of(owner, table, name);
        require_no_foreign_trigger(table, name);
    }
    GetUserIdAndSecContext(&user_, &context_);
    SetUserIdAndSecContext(owner, context_ | SECURITY_LOCAL_USERID_CHANGE | SECURITY_RESTRICTED_OPERATION |
                                      SECURITY_NOFORCE_RLS);
}

void OwnerSection::end() const {
    SetUserIdAndSecContext(user_, context_);
}

} // namespace shortener
