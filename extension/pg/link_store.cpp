#include "pg/link_store.h"

#include "core/base62.h"
#include "core/host.h"
#include "core/scramble.h"

#include "pg/errors.h"
#include "pg/guard.h"
#include "pg/owner_section.h"
#include "pg/plans.h"
#include "pg/settings.h"
#include "pg/snowflake.h"
#include "pg/text.h"
#include "pg/url.h"

extern "C" {
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "commands/sequence.h"
#include "common/cryptohash.h"
#include "common/sha2.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
}

namespace shortener {

namespace {

Datum text_array(const Datum* elements, int count) {
    return PointerGetDatum(construct_array(const_cast<Datum*>(elements), count, TEXTOID, -1, false, TYPALIGN_INT));
}

CodeStyle code_style(std::string_view name) {
    return name == "sequential"  ? CodeStyle::sequential
           : name == "snowflake" ? CodeStyle::snowflake
                                 : CodeStyle::scrambled;
}

const ErrorText& text_of(const CheckedUrl& url) {
    return url.url_error != UrlError::none ? error_text(url.url_error) : error_text(url.link_error);
}

// Numbers drawn from the sequence of link.id that nobody has seen.
struct SpareIds {
    static constexpr int capacity = 64;
    Oid sequence;
    int64 ids[capacity];
    int count;
};

SpareIds spare_ids;

// Numbers spent by the current transaction, if it is serializable. Such a transaction fails by design, its
// results are void until it commits, and it is tried again: the numbers go back on offer. After any other
// rollback a number stays burnt, because a client may have shown its code.
struct SpentIds {
    int64 ids[SpareIds::capacity];
    int count;
};

SpentIds spent_ids;

void end_of_transaction(XactEvent event, void*) {
    if (event == XACT_EVENT_ABORT)
        while (spent_ids.count > 0 && spare_ids.count < SpareIds::capacity)
            spare_ids.ids[spare_ids.count++] = spent_ids.ids[--spent_ids.count];
    if (event == XACT_EVENT_ABORT || event == XACT_EVENT_COMMIT || event == XACT_EVENT_PREPARE)
        spent_ids.count = 0;
}

void remember_spent(int64 id) {
    static bool registered = false;
    if (!registered) {
        RegisterXactCallback(end_of_transaction, nullptr);
        registered = true;
    }
    if (IsolationIsSerializable() && spent_ids.count < SpareIds::capacity)
        spent_ids.ids[spent_ids.count++] = id;
}

Oid find_relation(const char* name) {
    const Oid relation = get_relname_relid(name, get_namespace_oid("shortener", false));
    if (!OidIsValid(relation))
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE), errmsg("relation \"shortener.%s\" does not exist", name),
                        errhint("CALL shortener.install();")));
    return relation;
}

Oid id_sequence() {
    const Oid sequence = find_relation("link_id_seq");
    if (spare_ids.sequence != sequence) {
        spare_ids.sequence = sequence;
        spare_ids.count = 0;
    }
    return sequence;
}

} // namespace

Code Code::from(std::string_view text) {
    Code code;
    code.length = text.copy(code.characters, sizeof code.characters);
    return code;
}

CheckedUrl check_url(std::string_view given) {
    const std::string_view input = utf8_from_database(given);
    const std::size_t bound = url_bound(input.size());
    char* const storage = static_cast<char*>(palloc(bound));
    CheckedUrl checked;
    Url url;
    checked.url_error = canonical_url(input, {storage, bound}, url);
    if (checked.url_error != UrlError::none) {
        pfree(storage);
        return checked;
    }
    // The storage is many times as large as what is in it, and there may be many URLs: keep a copy instead.
    checked.href = {pnstrdup(url.href.data(), url.href.size()), url.href.size()};
    checked.host = host_key(url.hostname, {static_cast<char*>(palloc(url.hostname.size())), url.hostname.size()});
    if (url.href.size() > link_url_max_length)
        checked.link_error = LinkError::url_too_long;
    else if (url.has_credentials())
        checked.link_error = LinkError::has_credentials;
    pfree(storage);
    return checked;
}

void append_host_patterns(const CheckedUrl& url, Datum*& patterns, int& count, int& capacity) {
    char* const storage = static_cast<char*>(palloc(url.host.size() + 1));
    each_host_pattern(url.host, {storage, url.host.size() + 1}, [&](std::string_view pattern) {
        if (count == capacity) {
            capacity = capacity ? 2 * capacity : 16;
            const Size size = sizeof(Datum) * capacity;
            patterns = static_cast<Datum*>(patterns ? repalloc(patterns, size) : palloc(size));
        }
        patterns[count++] = text_datum(pattern);
    });
}

Workspace find_workspace(std::string_view slug, const Datum* patterns, int pattern_count) {
    static KeptStatement statement(
        "SELECT w.id, w.code_style, w.rules, pg_catalog.statement_timestamp() OPERATOR(pg_catalog.+) w.default_ttl,"
        " w.redirect_status, k.key,"
        " EXISTS (SELECT FROM shortener.domain d WHERE d.host OPERATOR(pg_catalog.=) ANY ($2))"
        " OR EXISTS (SELECT FROM shortener.blocked_host b WHERE b.pattern OPERATOR(pg_catalog.=) ANY ($2)) "
        "FROM shortener.workspace w JOIN shortener.workspace_key k ON k.workspace_id OPERATOR(pg_catalog.=) w.id "
        "WHERE w.slug OPERATOR(pg_catalog.=) $1",
        {TEXTOID, TEXTARRAYOID});
    if (!slug.data())
        slug = settings.default_workspace;
    const Datum values[] = {text_datum(slug), text_array(patterns, pattern_count)};
    const auto section = OwnerSection::to_read({"workspace", "workspace_key", "domain", "blocked_host"});
    statement.run(values);
    section.end();
    if (SPI_processed != 1)
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT),
                        errmsg("workspace \"%.*s\" does not exist", static_cast<int>(slug.size()), slug.data()),
                        errhint("SELECT shortener.create_workspace(...);")));
    bool is_null;
    Workspace workspace{};
    workspace.id = DatumGetInt32(result_value(0, 1, is_null));
    workspace.code_style = code_style(text_view(result_value(0, 2, is_null)));
    workspace.rules = url_rules_from_array(DatumGetArrayTypeP(result_value(0, 3, is_null)));
    const Datum expiry = result_value(0, 4, is_null);
    workspace.default_expiry = is_null ? DT_NOEND : DatumGetTimestampTz(expiry);
    workspace.redirect_status = DatumGetInt16(result_value(0, 5, is_null));
    text_view(result_value(0, 6, is_null)).copy(reinterpret_cast<char*>(workspace.key), sizeof workspace.key);
    workspace.has_refused_host = DatumGetBool(result_value(0, 7, is_null));
    return workspace;
}

void check_hosts(CheckedUrl* urls, int count, const Datum* patterns, int pattern_count) {
    static KeptStatement statement(
        "SELECT d.host, true FROM shortener.domain d WHERE d.host OPERATOR(pg_catalog.=) ANY ($1) UNION ALL "
        "SELECT b.pattern, false FROM shortener.blocked_host b WHERE b.pattern OPERATOR(pg_catalog.=) ANY ($1) "
        "ORDER BY 1",
        {TEXTARRAYOID});
    const Datum values[] = {text_array(patterns, pattern_count)};
    const auto section = OwnerSection::to_read({"domain", "blocked_host"});
    statement.run(values);
    section.end();
    // The columns have collation C, so the rows are in the order of their bytes.
    const auto host_at = [](uint64 row) {
        bool is_null;
        return text_view(result_value(row, 1, is_null));
    };
    const auto first_row = [&](std::string_view pattern) {
        uint64 begin = 0, end = SPI_processed;
        while (begin < end) {
            const uint64 middle = begin + (end - begin) / 2;
            if (host_at(middle) < pattern)
                begin = middle + 1;
            else
                end = middle;
        }
        return begin;
    };
    for (int i = 0; i < count; i++) {
        CHECK_FOR_INTERRUPTS();
        if (urls[i].refused())
            continue;
        char* const storage = static_cast<char*>(palloc(urls[i].host.size() + 1));
        each_host_pattern(urls[i].host, {storage, urls[i].host.size() + 1}, [&](std::string_view pattern) {
            for (uint64 row = first_row(pattern); row < SPI_processed && host_at(row) == pattern; row++) {
                bool is_null;
                urls[i].link_error = DatumGetBool(result_value(row, 2, is_null)) ? LinkError::own_domain
                                                                                : LinkError::blocked_host;
            }
        });
    }
}

void raise_refusal(const CheckedUrl& url, std::string_view given) {
    raise_error(text_of(url), given);
}

char* refusal_message(const CheckedUrl& url, std::string_view given) {
    return error_message(text_of(url), given);
}

Digest digest_of(const Workspace& workspace, const CheckedUrl& url) {
    const std::size_t bound = url_bound(url.href.size());
    char* const storage = static_cast<char*>(palloc(bound));
    std::string_view key;
    if (normalize_url(url.href, workspace.rules, {storage, bound}, key) != UrlError::none)
        elog(ERROR, "a canonical URL was refused");

    unsigned char hash[PG_SHA256_DIGEST_LENGTH];
    pg_cryptohash_ctx* const context = pg_cryptohash_create(PG_SHA256);
    if (pg_cryptohash_init(context) < 0 ||
        pg_cryptohash_update(context, workspace.key, sizeof workspace.key) < 0 ||
        pg_cryptohash_update(context, reinterpret_cast<const uint8*>(key.data()), key.size()) < 0 ||
        pg_cryptohash_final(context, hash, sizeof hash) < 0)
        elog(ERROR, "could not compute SHA-256: %s", pg_cryptohash_error(context));
    pg_cryptohash_free(context);
    pfree(storage);
    Digest digest;
    memcpy(digest.bytes, hash, sizeof digest.bytes);
    return digest;
}

Datum digest_datum(const Digest& digest) {
    bytea* const value = static_cast<bytea*>(palloc(VARHDRSZ + digest_size));
    SET_VARSIZE(value, VARHDRSZ + digest_size);
    memcpy(VARDATA(value), digest.bytes, digest_size);
    return PointerGetDatum(value);
}

int64 offer_id(CodeStyle style) {
    const int64 id = take_id(style);
    return_id(style, id);
    return id;
}

void spend_id(CodeStyle style, int64 id) {
    if (style == CodeStyle::snowflake)
        return;
    for (int i = spare_ids.count; i-- > 0;)
        if (spare_ids.ids[i] == id) {
            spare_ids.ids[i] = spare_ids.ids[--spare_ids.count];
            remember_spent(id);
            return;
        }
}

int64 take_id(CodeStyle style) {
    if (style == CodeStyle::snowflake)
        return next_snowflake();
    const Oid sequence = id_sequence();
    return spare_ids.count > 0 ? spare_ids.ids[--spare_ids.count] : nextval_internal(sequence, true);
}

void return_id(CodeStyle style, int64 id) {
    if (style != CodeStyle::snowflake && spare_ids.count < SpareIds::capacity)
        spare_ids.ids[spare_ids.count++] = id;
}

void raise_no_free_code() {
    ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED), errmsg("found no free short code in %d attempts", max_attempts),
                    errhint("A trigger or a row-level security policy on shortener.link may keep new links out, or aliases "
                            "may have taken the codes; a further call goes on from here.")));
}

Code code_of(const Workspace& workspace, int64 id) {
    const std::int64_t number =
        workspace.code_style == CodeStyle::scrambled ? scramble(SipKey::from_bytes(workspace.key), id) : id;
    char digits[base62_max_length];
    return Code::from({digits, base62_encode(number, digits)});
}

} // namespace shortener
