#include "pg/session.h"

#include <cstring>
#include <iterator>

#include "pg/api_key.h"
#include "pg/errors.h"
#include "pg/guard.h"
#include "pg/installation.h"
#include "pg/owner_section.h"
#include "pg/plans.h"
#include "pg/settings.h"
#include "pg/text.h"
#include "pg/workspace_memory.h"

extern "C" {
#include "access/parallel.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rls.h"
#include "utils/syscache.h"
}

namespace shortener {

namespace {

// Identities of the transaction, the newest first; they live in its memory context.
struct Entry {
    Identity identity;
    bool for_session;
    int nest_level; // of the subtransaction that it ends with
    Entry* outer;
};

Entry* entries = nullptr;
Identity session_identity;
bool has_session_identity = false;
bool session_key_is_current = false; // nothing has changed since it was last looked at

// The prefix of the key that the session holds, empty without one. So a key is given up, for a function or
// until a rollback as well, as any setting is.
char* session_key = nullptr;
bool setting_session_key = false; // by us, not by a user

void end_transaction(bool committed) {
    for (const Entry* entry = entries; committed && entry; entry = entry->outer)
        if (entry->for_session) {
            session_identity = entry->identity;
            has_session_identity = true;
            session_key_is_current = false;
            break;
        }
    entries = nullptr;
}

void at_transaction_end(XactEvent event, void*) {
    switch (event) {
    case XACT_EVENT_COMMIT:
    case XACT_EVENT_PREPARE: end_transaction(true); break;
    case XACT_EVENT_ABORT: end_transaction(false); break;
    default: break;
    }
}

void at_subtransaction_end(SubXactEvent event, SubTransactionId, SubTransactionId, void*) {
    const int level = GetCurrentTransactionNestLevel();
    if (event == SUBXACT_EVENT_ABORT_SUB)
        while (entries && entries->nest_level >= level)
            entries = entries->outer;
    else if (event == SUBXACT_EVENT_COMMIT_SUB)
        for (Entry* entry = entries; entry && entry->nest_level >= level; entry = entry->outer)
            entry->nest_level = level - 1;
}

// A user may empty the setting, as RESET and DISCARD ALL do; a parallel worker gets the value of its leader.
bool check_session_key(char** value, void**, GucSource) {
    if (**value == '\0' || setting_session_key || InitializingParallelWorker)
        return true;
    GUC_check_errdetail("Only shortener.authenticate() sets it.");
    return false;
}

// The workspace of a role, as the tables have it. One role is remembered: few sessions have two.
struct Binding {
    enum class Kind { unbound, bound, ambiguous } kind;
    int32 workspace_id; // 0: to none
};

struct BindingMemory {
    bool is_filled = false;
    Oid role = InvalidOid;
    Binding binding{};
};

BindingMemory memory;
uint64 generation = 0; // of the tables that it comes from
Oid role_workspace_oid = InvalidOid;
Oid workspace_oid = InvalidOid;
Oid api_key_oid = InvalidOid;
Oid workspace_user_oid = InvalidOid;

void forget_bindings() {
    memory.is_filled = false;
    generation++;
}

void at_relation_change(Datum, Oid relation) {
    if (!OidIsValid(relation) || relation == role_workspace_oid || relation == workspace_oid)
        forget_bindings();
    if (!OidIsValid(relation) || relation == api_key_oid || relation == workspace_user_oid) {
        session_key_is_current = false;
        generation++;
    }
}

void at_role_change(Datum, int, uint32) {
    forget_bindings();
}

// The role's own binding, else the one that it inherits, as it inherits what is granted; of two it inherits,
// none. A superuser has the rights of every role and inherits from none.
Binding binding_in_tables(Oid role) {
    static KeptStatement statement(
        "SELECT workspace_id, role OPERATOR(pg_catalog.=) $role FROM shortener.role_workspace"
        " WHERE role OPERATOR(pg_catalog.=) $role"
        " OR ($inherits AND pg_catalog.pg_has_role($role, role, 'USAGE')) ORDER BY 2 DESC",
        {{"role", OIDOID}, {"inherits", BOOLOID}});
    const OwnerSection section = OwnerSection::to_read({"role_workspace"});
    const Rows rows = statement.read_latest(
        {{"role", ObjectIdGetDatum(role)}, {"inherits", BoolGetDatum(!superuser_arg(role))}});
    section.end();
    Binding binding{Binding::Kind::unbound, 0};
    for (uint64 i = 0; i < rows.count(); i++) {
        const int32 workspace_id = rows[i].get<int32>(1).value_or(0);
        if (i > 0 && workspace_id != binding.workspace_id)
            return {Binding::Kind::ambiguous, 0};
        binding = {Binding::Kind::bound, workspace_id};
        if (rows[i].required<bool>(2))
            break;
    }
    return binding;
}

// 0: there is none.
int32 workspace_of_slug(std::string_view slug) {
    static KeptStatement statement(
        "SELECT id FROM shortener.workspace WHERE slug OPERATOR(pg_catalog.=) $slug"
        " AND deleted_at IS NULL",
        {{"slug", TEXTOID}});
    const OwnerSection section = OwnerSection::to_read({"workspace"});
    const Rows rows = statement.read_latest({{"slug", text_datum(slug)}});
    section.end();
    return rows.empty() ? 0 : rows[0].required<int32>(1);
}

Oid our_relation(const char* name) {
    return get_relname_relid(name, get_namespace_oid("shortener", false));
}

bool is_restricted() {
    return check_enable_rls(our_relation("link"), InvalidOid, true) == RLS_ENABLED;
}

Binding binding_of(Oid role) {
    if (memory.is_filled && memory.role == role)
        return memory.binding;
    require_install();
    role_workspace_oid = our_relation("role_workspace");
    workspace_oid = our_relation("workspace");
    const uint64 before = generation;
    SPI_connect();
    Binding binding = binding_in_tables(role);
    if (binding.kind == Binding::Kind::unbound && is_restricted())
        binding = {Binding::Kind::bound, workspace_of_slug("default")};
    SPI_finish();
    // Not what an old snapshot saw, nor that there is no workspace: there may be one any time.
    if (before == generation && !IsInParallelMode() &&
        !(binding.kind == Binding::Kind::bound && binding.workspace_id == 0))
        memory = {true, role, binding};
    return binding;
}

// The key may have been revoked since the session authenticated.
const Identity* held_identity() {
    if (session_key_is_current && session_identity.expires_at > GetCurrentStatementStartTimestamp())
        return &session_identity;
    api_key_oid = our_relation("api_key");
    workspace_user_oid = our_relation("workspace_user");
    const uint64 before = generation;
    SPI_connect();
    session_identity = read_identity(session_identity);
    SPI_finish();
    session_key_is_current = before == generation && !IsInParallelMode();
    return &session_identity;
}

uint32 current_scope_bits() {
    const Identity* const identity = current_identity();
    return identity ? identity->scopes : static_cast<uint32>(all_scopes);
}

// A worker would answer that nobody has authenticated.
void refuse_in_worker() {
    if (IsParallelWorker())
        ereport(ERROR, (errcode(ERRCODE_INVALID_TRANSACTION_STATE),
                        errmsg("a parallel worker does not know who has authenticated"),
                        errhint("Functions that call functions of shortener must not be PARALLEL SAFE.")));
}

struct ScopeName {
    std::string_view name;
    Scopes scope;
    uint32 includes;
};
constexpr ScopeName scope_names[] = {
    {"links:read", links_read, links_read},
    {"links:write", links_write, links_write | links_read},
    {"analytics:read", analytics_read, analytics_read},
    {"admin", admin, all_scopes},
};

// Whether the API key in use has the scope, or none is in use.
bool has_scope(std::string_view name) {
    const uint32 scope = scope_of_name(name);
    if (scope == 0)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("unknown scope"),
                        errhint("The scopes are links:read, links:write, analytics:read and admin.")));
    return (current_scope_bits() & scope) == scope;
}

} // namespace

uint32 scope_of_name(std::string_view name) noexcept {
    for (const ScopeName& scope : scope_names)
        if (scope.name == name)
            return scope.includes;
    return 0;
}

void require_scope(std::string_view name) {
    if (!has_scope(name))
        ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
                        errmsg("API key \"%s\" does not have scope %.*s", current_identity()->key_prefix,
                               static_cast<int>(name.size()), name.data())));
}

void begin_identity(const Identity& identity, bool for_session) {
    Entry* const entry = static_cast<Entry*>(MemoryContextAlloc(TopTransactionContext, sizeof(Entry)));
    *entry = {identity, for_session, GetCurrentTransactionNestLevel(), entries};
    if (for_session) {
        setting_session_key = true;
        PG_TRY();
        { SetConfigOption("shortener.session_key", identity.key_prefix, PGC_USERSET, PGC_S_SESSION); }
        PG_FINALLY();
        { setting_session_key = false; }
        PG_END_TRY();
    }
    entries = entry;
}

const Identity* current_identity() {
    refuse_in_worker();
    if (entries)
        return &entries->identity;
    const bool holds_key = has_session_identity && std::strcmp(session_key, session_identity.key_prefix) == 0;
    return holds_key ? held_identity() : nullptr;
}

std::optional<Datum> creating_user() {
    const Identity* const identity = current_identity();
    if (!identity || identity->user_id == 0)
        return std::nullopt;
    return CStringGetTextDatum(psprintf("user:%lld", static_cast<long long>(identity->user_id)));
}

std::optional<int32> working_workspace() {
    int32 id;
    if (const Identity* const identity = current_identity()) {
        id = identity->workspace_id;
    } else {
        const Binding binding = binding_of(GetUserId());
        if (binding.kind == Binding::Kind::unbound)
            return std::nullopt;
        id = binding.workspace_id;
    }
    if (id == 0)
        return id;
    // It may have been deleted since the session authenticated or the role was bound.
    const std::optional<Workspace> workspace = find_workspace_if_any(id);
    return workspace && !workspace->is_deleted ? id : 0;
}

bool may_use_workspace(int32 id) {
    return !is_restricted() || working_workspace() == id;
}

bool may_use_workspace(int32 id, Scopes scope) {
    return !is_restricted() || ((current_scope_bits() & scope) && working_workspace() == id);
}

void raise_no_workspace() {
    ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
                    errmsg("role \"%s\" has no workspace to work in", GetUserNameFromId(GetUserId(), false)),
                    errhint("Call shortener.authenticate() in the same transaction.")));
    pg_unreachable();
}

void define_session() {
    DefineCustomStringVariable(
        "shortener.session_key", "Prefix of the API key that the session has authenticated with.",
        "Only authenticate() sets it; RESET and DISCARD ALL end what it gave.", &session_key, "", PGC_USERSET,
        GUC_NOT_IN_SAMPLE | GUC_DISALLOW_IN_FILE, check_session_key, nullptr, nullptr);
    RegisterXactCallback(at_transaction_end, nullptr);
    RegisterSubXactCallback(at_subtransaction_end, nullptr);
    CacheRegisterRelcacheCallback(at_relation_change, 0);
    CacheRegisterSyscacheCallback(AUTHOID, at_role_change, 0);
    CacheRegisterSyscacheCallback(AUTHMEMROLEMEM, at_role_change, 0);
}

} // namespace shortener

using namespace shortener;

SHORTENER_FUNCTION(shortener_current_workspace_id) {
    require_install();
    std::optional<int32> id = working_workspace();
    if (!id) {
        SPI_connect();
        id = workspace_of_slug(settings.default_workspace);
        SPI_finish();
        if (*id == 0)
            raise(LinkError::unknown_workspace, settings.default_workspace);
    }
    if (*id == 0)
        PG_RETURN_NULL();
    PG_RETURN_INT32(*id);
}

SHORTENER_FUNCTION(shortener_workspace_id) {
    if (PG_ARGISNULL(0)) {
        const Datum id = shortener_current_workspace_id(fcinfo);
        if (fcinfo->isnull)
            raise_no_workspace();
        return id;
    }
    require_install();
    const std::string_view slug = text_argument(fcinfo, 0);
    SPI_connect();
    const int32 id = workspace_of_slug(slug);
    SPI_finish();
    if (id == 0 || !may_use_workspace(id))
        raise(LinkError::unknown_workspace, slug);
    PG_RETURN_INT32(id);
}

// What policies ask for each row: a comparison with NULL is not true, and the row stays hidden.
SHORTENER_FUNCTION(shortener_permitted_workspace) {
    if (!has_scope(text_argument(fcinfo, 0)))
        PG_RETURN_NULL();
    return shortener_current_workspace_id(fcinfo);
}

SHORTENER_FUNCTION(shortener_require_scope) {
    require_scope(text_argument(fcinfo, 0));
    PG_RETURN_VOID();
}

SHORTENER_FUNCTION(shortener_current_user_id) {
    const Identity* const identity = current_identity();
    if (!identity || identity->user_id == 0)
        PG_RETURN_NULL();
    PG_RETURN_INT64(identity->user_id);
}

SHORTENER_FUNCTION(shortener_current_api_key) {
    const Identity* const identity = current_identity();
    if (!identity)
        PG_RETURN_NULL();
    PG_RETURN_TEXT_P(cstring_to_text(identity->key_prefix));
}

SHORTENER_FUNCTION(shortener_current_scopes) {
    const uint32 scopes = current_scope_bits();
    Datum names[std::size(scope_names)];
    int count = 0;
    for (const ScopeName& scope : scope_names)
        if (scopes & scope.scope)
            names[count++] = text_datum(scope.name);
    PG_RETURN_ARRAYTYPE_P(construct_array(names, count, TEXTOID, -1, false, TYPALIGN_INT));
}

SHORTENER_FUNCTION(shortener_forget_bindings) {
    if (!CALLED_AS_TRIGGER(fcinfo))
        ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
                        errmsg("function was not called by trigger manager")));
    CacheInvalidateRelcache(reinterpret_cast<TriggerData*>(fcinfo->context)->tg_relation);
    return 0;
}
