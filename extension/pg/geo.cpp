#include <cerrno>
#include <cstring>

#include "core/ip_address.h"
#include "core/utf8.h"

#include "pg/guard.h"
#include "pg/settings.h"
#include "pg/text.h"
#include "pg/visitor.h"

extern "C" {
#include <maxminddb.h>
#include <netinet/in.h>
#include <sys/stat.h>

#include "access/htup_details.h"
#include "funcapi.h"
}

using namespace shortener;

namespace {

// The file that the setting names, mapped. A file that was replaced is told by its inode, one that is written
// over by its size and time: both are looked at before each look-up, because what lies behind the end of a
// mapped file that has become shorter cannot be read.
class GeoDatabase {
  public:
    // Open, or nullptr; warns once for each state in which it cannot be opened.
    const MMDB_s* current() {
        if (settings.geoip_database[0] == '\0' && !state_.is_set)
            return nullptr;
        State now;
        if (settings.geoip_database[0] != '\0')
            now = State(settings.geoip_database);
        if (now == state_)
            return is_open_ ? &file_ : nullptr;
        if (is_open_)
            MMDB_close(&file_);
        state_ = now;
        is_open_ = false;
        if (!now.is_set)
            return nullptr;

        const int status =
            now.error ? MMDB_FILE_OPEN_ERROR : MMDB_open(settings.geoip_database, MMDB_MODE_MMAP, &file_);
        is_open_ = status == MMDB_SUCCESS;
        if (!is_open_)
            ereport(
                WARNING,
                (errcode(ERRCODE_CONFIG_FILE_ERROR),
                 errmsg("could not open GeoIP database \"%s\": %s", settings.geoip_database,
                        now.error ? strerror(now.error) : MMDB_strerror(status)),
                 errhint("shortener.geoip_database must name a file in MaxMind DB format, or be empty.")));
        return is_open_ ? &file_ : nullptr;
    }

  private:
    struct State {
        State() = default;
        explicit State(const char* path) : is_set(true) {
            struct stat found;
            strlcpy(name, path, sizeof name);
            if (stat(path, &found) != 0)
                error = errno;
            else if (!S_ISREG(found.st_mode))
                error = EINVAL;
            else {
                device = found.st_dev;
                inode = found.st_ino;
                size = found.st_size;
                seconds = found.st_mtim.tv_sec;
                nanoseconds = found.st_mtim.tv_nsec;
            }
        }
        bool operator==(const State& other) const {
            return is_set == other.is_set && error == other.error && device == other.device &&
                   inode == other.inode && size == other.size && seconds == other.seconds &&
                   nanoseconds == other.nanoseconds && strcmp(name, other.name) == 0;
        }

        bool is_set = false;
        int error = 0;
        dev_t device = 0;
        ino_t inode = 0;
        off_t size = 0;
        time_t seconds = 0;
        long nanoseconds = 0;
        char name[MAXPGPATH] = "";
    };

    State state_;
    bool is_open_ = false;
    MMDB_s file_;
};

MMDB_lookup_result_s look_up(const MMDB_s* file, const IpAddress& address, int& status) {
    if (address.size == 4) {
        struct sockaddr_in v4 = {};
        v4.sin_family = AF_INET;
        memcpy(&v4.sin_addr, address.bytes, address.size);
        return MMDB_lookup_sockaddr(file, reinterpret_cast<struct sockaddr*>(&v4), &status);
    }
    struct sockaddr_in6 v6 = {};
    v6.sin6_family = AF_INET6;
    memcpy(&v6.sin6_addr, address.bytes, address.size);
    return MMDB_lookup_sockaddr(file, reinterpret_cast<struct sockaddr*>(&v6), &status);
}

// The text at the end of the path; empty if there is none that could be a text of the database.
template <typename... Names> std::string_view text_at(MMDB_entry_s& entry, Names... path) {
    MMDB_entry_data_s data;
    if (MMDB_get_value(&entry, &data, path..., nullptr) != MMDB_SUCCESS || !data.has_data ||
        data.type != MMDB_DATA_TYPE_UTF8_STRING)
        return {};
    const std::string_view text(data.utf8_string, data.data_size);
    return is_utf8(text) && !has_control(text) ? text : std::string_view();
}

} // namespace

namespace shortener {

GeoLocation geo_lookup(const IpAddress& address) {
    static GeoDatabase database;
    GeoLocation location;
    const MMDB_s* file = database.current();
    if (!file || address.size == 0)
        return location;
    int status = MMDB_SUCCESS;
    MMDB_lookup_result_s found = look_up(file, unmapped(address), status);
    // Not found, an IPv6 address in a file of IPv4, damage: all of them are an unknown place.
    if (status != MMDB_SUCCESS || !found.found_entry)
        return location;
    if (const std::string_view country = text_at(found.entry, "country", "iso_code"); country.size() == 2)
        location.country.assign(ascii_unless_utf8(country));
    location.city.assign(ascii_unless_utf8(text_at(found.entry, "city", "names", "en")));
    return location;
}

} // namespace shortener

SHORTENER_FUNCTION(shortener_geo_lookup) {
    TupleDesc row;
    if (get_call_result_type(fcinfo, nullptr, &row) != TYPEFUNC_COMPOSITE)
        elog(ERROR, "return type must be a row type");
    const GeoLocation location = geo_lookup(ip_address_from_datum(PG_GETARG_DATUM(0)));
    Datum values[] = {text_datum(location.country.view()), text_datum(location.city.view())};
    bool nulls[] = {location.country.empty(), location.city.empty()};
    PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(row), values, nulls)));
}
