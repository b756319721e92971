// API keys: what authenticate() does with one, and how many uses are left.

#include "pg/api_key.h"

#include <cstring>

#include "pg/guard.h"
#include "pg/installation.h"
#include "pg/owner_section.h"
#include "pg/plans.h"
#include "pg/text.h"

extern "C" {
#include "access/generic_xlog.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xlog.h"
#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "common/cryptohash.h"
#include "common/sha2.h"
#include "executor/spi.h"
#include "storage/bufmgr.h"
#include "utils/array.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/timestamp.h"
}

using namespace shortener;

namespace {

// SQLSTATE of a key that is used too often; classes from I to Z are free for such.
constexpr int errcode_rate_limit = MAKE_SQLSTATE('S', 'K', '4', '2', '9');
constexpr int64 window = USECS_PER_HOUR;
constexpr int key_random_length = 43; // 62^43 > 2^256

struct Sha256 {
    uint8 bytes[PG_SHA256_DIGEST_LENGTH];
};
static_assert(sizeof(Sha256) == sizeof(Identity::key_digest));

// An API key as the tables have it.
struct StoredKey {
    int64 id;
    Identity identity;
    int32 rate_limit; // 0: none
    bool is_expired, is_revoked, is_suspended, is_workspace_deleted;
    ItemPointerData use; // the row that counts its uses
    Datum slug;
};

Sha256 sha256(std::string_view text) {
    Sha256 digest;
    pg_cryptohash_ctx* const context = pg_cryptohash_create(PG_SHA256);
    if (pg_cryptohash_init(context) < 0 ||
        pg_cryptohash_update(context, reinterpret_cast<const uint8*>(text.data()), text.size()) < 0 ||
        pg_cryptohash_final(context, digest.bytes, sizeof digest.bytes) < 0)
        elog(ERROR, "could not compute SHA-256: %s", pg_cryptohash_error(context));
    pg_cryptohash_free(context);
    return digest;
}

// In a time that does not tell where they differ.
bool equal(const Sha256& digest, std::string_view stored) {
    if (stored.size() != sizeof digest.bytes)
        return false;
    uint8 difference = 0;
    for (std::size_t i = 0; i < sizeof digest.bytes; i++)
        difference |= digest.bytes[i] ^ static_cast<uint8>(stored[i]);
    return difference == 0;
}

// Every wrong key takes the same way here: a look-up of its digest that finds nothing.
bool find(const Sha256& digest, StoredKey& key) {
    static KeptStatement statement(
        "SELECT k.digest, k.id, k.workspace_id, coalesce(k.user_id, 0), k.scopes::pg_catalog.text[], "
        "k.prefix, "
        "coalesce(k.rate_limit, 0),"
        " coalesce(k.expires_at OPERATOR(pg_catalog.<=) pg_catalog.clock_timestamp(), false), k.revoked_at "
        "IS NOT NULL,"
        " coalesce(u.status OPERATOR(pg_catalog.<>) 'active', false), w.deleted_at IS NOT NULL, c.ctid, "
        "w.slug, k.expires_at"
        " FROM shortener.api_key k"
        " JOIN shortener.workspace w ON w.id OPERATOR(pg_catalog.=) k.workspace_id"
        " JOIN shortener.api_key_use c"
        "  ON c.workspace_id OPERATOR(pg_catalog.=) k.workspace_id AND c.key_id OPERATOR(pg_catalog.=) k.id"
        " LEFT JOIN shortener.workspace_user u"
        "  ON u.workspace_id OPERATOR(pg_catalog.=) k.workspace_id AND u.id OPERATOR(pg_catalog.=) k.user_id"
        " WHERE k.digest OPERATOR(pg_catalog.=) $digest",
        {{"digest", BYTEAOID}});
    bytea* const wanted = static_cast<bytea*>(palloc(VARHDRSZ + sizeof digest.bytes));
    SET_VARSIZE(wanted, VARHDRSZ + sizeof digest.bytes);
    memcpy(VARDATA(wanted), digest.bytes, sizeof digest.bytes);
    const OwnerSection section =
        OwnerSection::to_read({"api_key", "workspace", "api_key_use", "workspace_user"});
    const Rows rows = statement.read_latest({{"digest", PointerGetDatum(wanted)}});
    section.end();
    if (rows.count() != 1 || !equal(digest, rows[0].required<std::string_view>(1)))
        return false;

    const Row row = rows[0];
    key = StoredKey{};
    key.id = row.required<int64>(2);
    key.identity.workspace_id = row.required<int32>(3);
    key.identity.user_id = row.required<int64>(4);
    memcpy(key.identity.key_digest, digest.bytes, sizeof digest.bytes);
    key.identity.expires_at = row.get<TimestampTz>(14).value_or(DT_NOEND);
    Datum* names;
    bool* nulls;
    int count;
    deconstruct_array(DatumGetArrayTypeP(row.required<Datum>(5)), TEXTOID, -1, false, TYPALIGN_INT, &names,
                      &nulls, &count);
    for (int i = 0; i < count; i++)
        if (!nulls[i])
            key.identity.scopes |= scope_of_name(text_view(names[i]));
    row.required<std::string_view>(6).copy(key.identity.key_prefix, key_prefix_length);
    key.rate_limit = row.required<int32>(7);
    key.is_expired = row.required<bool>(8);
    key.is_revoked = row.required<bool>(9);
    key.is_suspended = row.required<bool>(10);
    key.is_workspace_deleted = row.required<bool>(11);
    key.use = *row.required<ItemPointer>(12);
    key.slug = row.required<Datum>(13);
    return true;
}

[[noreturn]] void refuse(const char* message, const char* prefix) {
    ereport(ERROR, (errcode(ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION), errmsg(message, prefix),
                    errhidestmt(true)));
    pg_unreachable();
}

void require_valid(const StoredKey& key) {
    const char* const prefix = key.identity.key_prefix;
    if (key.is_revoked)
        refuse("API key \"%s\" has been revoked", prefix);
    if (key.is_expired)
        refuse("API key \"%s\" has expired", prefix);
    if (key.is_suspended)
        refuse("the user of API key \"%s\" is suspended", prefix);
}

// Columns of api_key_use.
enum {
    key_id_column = 2,
    window_started_column,
    window_uses_column,
    uses_column,
    last_used_column,
    column_count = 6
};
constexpr Oid column_types[column_count] = {INT4OID, INT8OID, TIMESTAMPTZOID,
                                            INT4OID, INT8OID, TIMESTAMPTZOID};

bool has_its_columns(TupleDesc description) {
    bool has = description->natts == column_count;
    for (int i = 0; has && i < column_count; i++)
        has = TupleDescAttr(description, i)->atttypid == column_types[i];
    return has;
}

// Counts a use, or tells for how many microseconds there is none left.
//
// The row is changed in place, under the lock of its page, as Postgres itself changes pg_class.relfrozenxid.
// So uses are counted exactly, whoever else counts; a transaction that rolls back has used its key all the
// same; no client waits until another one's transaction ends; and a transaction that only reads stays one. An
// UPDATE would be none of these.
int64 count_use(const StoredKey& key) {
    const Relation relation =
        table_open(get_relname_relid("api_key_use", get_namespace_oid("shortener", false)), RowExclusiveLock);
    if (relation->rd_tableam != GetHeapamTableAmRoutine())
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                        errmsg("table \"shortener.api_key_use\" must have access method heap")));
    const TupleDesc description = RelationGetDescr(relation);
    const Buffer buffer = ReadBuffer(relation, ItemPointerGetBlockNumber(&key.use));
    GenericXLogState* const change = GenericXLogStart(relation);
    LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
    const Page page = GenericXLogRegisterBuffer(change, buffer, 0);
    const TimestampTz now = GetCurrentTimestamp(); // under the lock, as those before took theirs

    const OffsetNumber place = ItemPointerGetOffsetNumber(&key.use);
    const ItemId item = place <= PageGetMaxOffsetNumber(page) ? PageGetItemId(page, place) : nullptr;
    Datum values[column_count] = {};
    bool nulls[column_count] = {};
    HeapTupleData row{};
    if (item && ItemIdIsNormal(item)) {
        row.t_data = reinterpret_cast<HeapTupleHeader>(PageGetItem(page, item));
        row.t_len = ItemIdGetLength(item);
        if (has_its_columns(description))
            heap_deform_tuple(&row, description, values, nulls);
    }
    if (!row.t_data || !has_its_columns(description) || DatumGetInt64(values[key_id_column - 1]) != key.id)
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("the uses of API key \"%s\" cannot be counted", key.identity.key_prefix),
                        errdetail("Its row of shortener.api_key_use has been changed or removed."),
                        errhidestmt(true)));

    TimestampTz started = DatumGetTimestampTz(values[window_started_column - 1]);
    int32 window_uses = DatumGetInt32(values[window_uses_column - 1]);
    // A clock that is set back begins no window, unless it was far ahead.
    if (now - window >= started || now + window < started) {
        started = now;
        window_uses = 0;
    }
    const bool is_accepted = key.rate_limit == 0 || window_uses < key.rate_limit;
    if (is_accepted) {
        values[window_started_column - 1] = TimestampTzGetDatum(started);
        values[window_uses_column - 1] =
            Int32GetDatum(window_uses < PG_INT32_MAX ? window_uses + 1 : window_uses);
        values[uses_column - 1] = Int64GetDatum(DatumGetInt64(values[uses_column - 1]) + 1);
        values[last_used_column - 1] = TimestampTzGetDatum(now);
        const HeapTuple changed = heap_form_tuple(description, values, nulls);
        const uint32 header = row.t_data->t_hoff;
        if (changed->t_len != row.t_len || changed->t_data->t_hoff != header)
            elog(ERROR, "a row of api_key_use has another length");
        memcpy(reinterpret_cast<char*>(row.t_data) + header,
               reinterpret_cast<char*>(changed->t_data) + header, row.t_len - header);
        GenericXLogFinish(change);
    } else {
        GenericXLogAbort(change);
    }
    UnlockReleaseBuffer(buffer);
    table_close(relation, NoLock);
    return is_accepted ? 0 : started + window - now;
}

} // namespace

namespace shortener {

Identity read_identity(const Identity& identity) {
    Sha256 digest;
    memcpy(digest.bytes, identity.key_digest, sizeof digest.bytes);
    StoredKey key;
    if (!find(digest, key))
        refuse("API key \"%s\" has been removed", identity.key_prefix);
    require_valid(key);
    return key.identity;
}

} // namespace shortener

SHORTENER_FUNCTION(shortener_authenticate) {
    require_install();
    const bool for_session = !PG_ARGISNULL(1) && PG_GETARG_BOOL(1);
    const Sha256 digest = sha256(PG_ARGISNULL(0) ? std::string_view() : text_argument(fcinfo, 0));
    const MemoryContext caller = CurrentMemoryContext;
    SPI_connect();
    StoredKey key;
    if (!find(digest, key))
        refuse("invalid API key", "");
    require_valid(key);
    const char* const prefix = key.identity.key_prefix;
    if (key.is_workspace_deleted)
        refuse("the workspace of API key \"%s\" has been deleted", prefix);
    if (!RecoveryInProgress()) { // on a standby nothing can be counted
        const int64 wait = count_use(key);
        if (wait > 0) {
            const int seconds = static_cast<int>((wait + USECS_PER_SEC - 1) / USECS_PER_SEC);
            ereport(
                ERROR,
                (errcode(errcode_rate_limit),
                 errmsg("API key \"%s\" has reached its limit of %d uses per hour; try again in %d seconds",
                        prefix, key.rate_limit, seconds),
                 errdetail("retry_after_seconds=%d", seconds), errhidestmt(true)));
        }
    }
    begin_identity(key.identity, for_session);
    const MemoryContext section = MemoryContextSwitchTo(caller);
    const Datum slug = text_datum(text_view(key.slug));
    MemoryContextSwitchTo(section);
    SPI_finish();
    PG_RETURN_DATUM(slug);
}

SHORTENER_FUNCTION(shortener_random_api_key) {
    static constexpr char alphabet[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    constexpr int fair = 256 - 256 % 62; // bytes from here on would favour some characters
    char key[3 + key_random_length] = {'s', 'k', '_'};
    for (std::size_t length = 3; length < sizeof key;) {
        uint8 random[64];
        if (!pg_strong_random(random, sizeof random))
            ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not generate random bytes")));
        for (std::size_t i = 0; i < sizeof random && length < sizeof key; i++)
            if (random[i] < fair)
                key[length++] = alphabet[random[i] % 62];
    }
    PG_RETURN_DATUM(text_datum({key, sizeof key}));
}
