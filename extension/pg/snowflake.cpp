#include "pg/snowflake.h"

#include "core/snowflake.h"

#include "pg/guard.h"
#include "pg/settings.h"

extern "C" {
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "access/xlog.h"
#include "common/file_perm.h"
#include "storage/fd.h"
#include "utils/timestamp.h"
}

using namespace shortener;

namespace {

// All backends of the server draw from one clock, which lies in a small file that they map. A file, because
// it works alike with and without shared_preload_libraries, in every database, and remembers the last
// instant over a restart. pg_dynshmem is where Postgres itself maps files; backups leave it out.
constexpr const char* clock_path = "pg_dynshmem/shortener_snowflake_clock";

static_assert(SnowflakeClock::is_always_lock_free, "processes share it");

SnowflakeClock* map_clock() {
    const int file = OpenTransientFile(clock_path, O_RDWR | O_CREAT | PG_BINARY);
    if (file < 0)
        ereport(ERROR, (errcode_for_file_access(), errmsg("could not open file \"%s\": %m", clock_path)));
    // Whoever comes second finds the bytes there; new ones are zero. Allocated rather than left as a hole: on
    // a full disk the first store through the map would be a bus error.
    if (const int error = posix_fallocate(file, 0, sizeof(SnowflakeClock)); error != 0) {
        errno = error;
        ereport(ERROR, (errcode_for_file_access(), errmsg("could not allocate file \"%s\": %m", clock_path)));
    }
    void* memory = mmap(nullptr, sizeof(SnowflakeClock), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED)
        ereport(ERROR, (errcode_for_file_access(), errmsg("could not map file \"%s\": %m", clock_path)));
    CloseTransientFile(file);
    return static_cast<SnowflakeClock*>(memory);
}

int64 unix_milliseconds() {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return int64{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

} // namespace

namespace shortener {

std::int64_t next_snowflake() {
    static SnowflakeClock* clock = nullptr;
    if (!clock) {
        // A standby shares its primary's node number, but not its clock.
        if (RecoveryInProgress())
            ereport(ERROR, (errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
                            errmsg("cannot make snowflake ids during recovery"),
                            errhint("Ask the primary server.")));
        clock = map_clock();
    }
    const std::int64_t id = snowflake_next(*clock, unix_milliseconds(), settings.node_id);
    if (id < 0)
        ereport(
            ERROR,
            (errcode(ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED), errmsg("snowflake ids are used up"),
             errdetail("Their 41 bits of milliseconds end in the year 2093."),
             errhint("Check the clock of this server; \"%s\" in the data directory keeps the last instant "
                     "it showed, and is made anew when it is removed while the server is down.",
                     clock_path)));
    return id;
}

} // namespace shortener

SHORTENER_FUNCTION(shortener_snowflake_id) {
    PG_RETURN_INT64(next_snowflake());
}

SHORTENER_FUNCTION(shortener_snowflake_time) {
    const int64 unix_ms = snowflake_unix_ms(PG_GETARG_INT64(0));
    constexpr int64 unix_to_postgres_ms =
        int64{POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE} * SECS_PER_DAY * 1000;
    PG_RETURN_TIMESTAMPTZ((unix_ms - unix_to_postgres_ms) * 1000);
}

SHORTENER_FUNCTION(shortener_snowflake_node) {
    PG_RETURN_INT32(snowflake_node(PG_GETARG_INT64(0)));
}
