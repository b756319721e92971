#include "core/ip_address.h"

#include <algorithm>

#include "pg/guard.h"
#include "pg/text.h"
#include "pg/visitor.h"

extern "C" {
#include <sys/socket.h>

#include "utils/inet.h"
}

using namespace shortener;

namespace shortener {

IpAddress ip_address_from_datum(Datum datum) {
    const inet* value = DatumGetInetPP(datum);
    IpAddress address;
    address.size = ip_addrsize(value);
    std::copy_n(ip_addr(value), address.size, address.bytes);
    return address;
}

Datum ip_address_datum(const IpAddress& address) {
    auto* value = static_cast<inet*>(palloc0(sizeof(inet)));
    ip_family(value) = address.size == 4 ? PGSQL_AF_INET : PGSQL_AF_INET6;
    ip_bits(value) = ip_maxbits(value);
    std::copy_n(address.bytes, address.size, ip_addr(value));
    SET_INET_VARSIZE(value);
    return InetPGetDatum(value);
}

} // namespace shortener

SHORTENER_FUNCTION(shortener_anonymize_ip) {
    PG_RETURN_DATUM(ip_address_datum(anonymized(ip_address_from_datum(PG_GETARG_DATUM(0)))));
}

SHORTENER_FUNCTION(shortener_visitor_hash) {
    if (PG_ARGISNULL(0))
        PG_RETURN_NULL();
    const std::string_view salt = text_argument(fcinfo, 0); // a bytea is laid out as a text
    unsigned char key[16];
    if (salt.size() != sizeof key)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("salt must have 16 bytes")));
    std::copy(salt.begin(), salt.end(), key);
    const IpAddress address = PG_ARGISNULL(1) ? IpAddress() : ip_address_from_datum(PG_GETARG_DATUM(1));
    const std::string_view user_agent = PG_ARGISNULL(2) ? "" : cut_user_agent(text_argument(fcinfo, 2));
    PG_RETURN_INT64(static_cast<int64>(visitor_hash(SipKey::from_bytes(key), address, user_agent)));
}
