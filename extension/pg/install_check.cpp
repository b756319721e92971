#include "pg/install_check.h"

#include "pg/guard.h"

extern "C" {
#include "catalog/namespace.h"
#include "utils/lsyscache.h"
}

using namespace shortener;

namespace shortener {

void require_install() {
    const Oid schema = get_namespace_oid("shortener", true);
    if (!OidIsValid(schema) || !OidIsValid(get_relname_relid("installation", schema)))
        ereport(ERROR,
                (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                 errmsg("the tables of shortener are not installed"), errhint("CALL shortener.install();")));
}

} // namespace shortener

SHORTENER_FUNCTION(shortener_require_install) {
    require_install();
    PG_RETURN_BOOL(true);
}
