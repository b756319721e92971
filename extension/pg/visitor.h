#pragma once

// What can be known of a visitor: of the address and of the User-Agent. All of it owns nothing, so a Postgres
// error may jump over it.

#include <cstdint>
#include <string_view>

#include "core/bounded_text.h"
#include "core/ip_address.h"
#include "core/siphash.h"
#include "core/user_agent.h"

extern "C" {
#include "postgres.h"
}

namespace shortener {

// A User-Agent is looked at and stored up to so many characters.
constexpr int user_agent_max_length = 256;

// Outside databases in UTF-8, what is not ASCII is given as question marks: the collections that names come
// from are in UTF-8, and a click must not fail because some letter has no place in the encoding of the
// database.
std::string_view ascii_unless_utf8(std::string_view text);

// The text, in the encoding of the database, cut to that.
std::string_view cut_user_agent(std::string_view user_agent);

// The text is cut already. The first call in a session reads and compiles shortener.user_agent_regexes; if
// that cannot be done, it warns once and knows nothing. The texts are in the encoding of the database.
UserAgent parse_user_agent(std::string_view user_agent);

// An address of type inet, without its netmask, and back.
IpAddress ip_address_from_datum(Datum inet);
Datum ip_address_datum(const IpAddress& address);

struct GeoLocation {
    BoundedText<2> country; // ISO 3166-1 alpha-2; empty if unknown
    BoundedText<128> city;  // its English name; empty if unknown
};

// From shortener.geoip_database, which is opened anew when it was replaced. Knows nothing when the setting is
// empty, and warns once when the file cannot be read. Ask before the address is anonymized.
GeoLocation geo_lookup(const IpAddress& address);

} // namespace shortener
