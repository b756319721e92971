// Passwords: bcrypt as pgcrypto has it, wherever that was installed.

#include <algorithm>
#include <initializer_list>

#include "pg/guard.h"
#include "pg/installation.h"
#include "pg/owner_section.h"
#include "pg/plans.h"
#include "pg/session.h"
#include "pg/text.h"

extern "C" {
#include "catalog/dependency.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/syscache.h"
}

using namespace shortener;

namespace {

constexpr int cost = 10;                        // some 50 ms
constexpr std::size_t max_password_length = 72; // bcrypt ignores what follows

// A function of pgcrypto, found through the extension: the path would find what somebody else has put into
// it. Postgres lets superusers alone create functions in C, so the owner of the database cannot have made
// this one.
Oid pgcrypto_function(const char* name, std::initializer_list<Oid> types) {
    const Oid extension = get_extension_oid("pgcrypto", true);
    if (!OidIsValid(extension))
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("passwords need extension pgcrypto"), errhint("CREATE EXTENSION pgcrypto;")));
    CatCList* const candidates = SearchSysCacheList1(PROCNAMEARGSNSP, CStringGetDatum(name));
    Oid found = InvalidOid;
    for (int i = 0; i < candidates->n_members; i++) {
        const auto candidate = reinterpret_cast<Form_pg_proc>(GETSTRUCT(&candidates->members[i]->tuple));
        const oidvector& arguments = candidate->proargtypes;
        if (candidate->prolang == ClanguageId && arguments.dim1 == static_cast<int>(types.size()) &&
            std::equal(types.begin(), types.end(), arguments.values) &&
            getExtensionOfObject(ProcedureRelationId, candidate->oid) == extension)
            found = candidate->oid;
    }
    ReleaseSysCacheList(candidates);
    if (!OidIsValid(found))
        ereport(ERROR,
                (errcode(ERRCODE_UNDEFINED_FUNCTION), errmsg("extension pgcrypto has no function %s", name)));
    return found;
}

Datum crypt(Datum password, Datum setting) {
    return OidFunctionCall2Coll(pgcrypto_function("crypt", {TEXTOID, TEXTOID}), DEFAULT_COLLATION_OID,
                                password, setting);
}

} // namespace

SHORTENER_FUNCTION(shortener_hash_password) {
    const std::size_t length = text_argument(fcinfo, 0).size();
    if (length == 0 || length > max_password_length)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PASSWORD), errmsg("a password must have 1 to 72 bytes"),
                        errhidestmt(true)));
    const Datum setting = OidFunctionCall2(pgcrypto_function("gen_salt", {TEXTOID, INT4OID}),
                                           text_datum("bf"), Int32GetDatum(cost));
    PG_RETURN_DATUM(crypt(PG_GETARG_DATUM(0), setting));
}

// Without a user, or one without a password, it takes the same time to say no. The hashes themselves are for
// the owner of the tables alone.
SHORTENER_FUNCTION(shortener_check_password) {
    static constexpr std::string_view nobody = "$2a$10$MnKPRc/iqgSlUj5lxvs.LOJkDjJPDza6Kf1cXTq0ReCGOItDkmxKa";
    static KeptStatement statement(
        "SELECT hash FROM shortener.user_password WHERE workspace_id OPERATOR(pg_catalog.=) $workspace"
        " AND user_id OPERATOR(pg_catalog.=) $user",
        {{"workspace", INT4OID}, {"user", INT8OID}});
    if (PG_ARGISNULL(0))
        PG_RETURN_BOOL(false);
    if (!may_use_workspace(PG_GETARG_INT32(0), admin)) // as the policies of user_password have it
        PG_RETURN_BOOL(false);
    SPI_connect();
    std::optional<Datum> known;
    if (!PG_ARGISNULL(1)) {
        const OwnerSection section = OwnerSection::to_read({"user_password"});
        const Rows rows = statement.run({{"workspace", PG_GETARG_DATUM(0)}, {"user", PG_GETARG_DATUM(1)}});
        section.end();
        if (!rows.empty())
            known = rows[0].get<Datum>(1);
    }
    const Datum stored = known ? *known : text_datum(nobody);
    const Datum password = PG_ARGISNULL(2) ? text_datum("") : PG_GETARG_DATUM(2);
    const std::string_view expected = text_view(stored), hash = text_view(crypt(password, stored));
    unsigned char difference = expected.size() == hash.size() ? 0 : 1;
    for (std::size_t i = 0; i < expected.size() && i < hash.size(); i++)
        difference |= static_cast<unsigned char>(expected[i] ^ hash[i]);
    const bool matches =
        known && !PG_ARGISNULL(2) && difference == 0 && text_view(password).size() <= max_password_length;
    SPI_finish();
    PG_RETURN_BOOL(matches);
}
