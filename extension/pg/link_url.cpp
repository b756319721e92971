#include "pg/link_url.h"

#include "core/host.h"

#include "pg/guard.h"
#include "pg/owner_section.h"
#include "pg/plans.h"
#include "pg/text.h"
#include "pg/url.h"

extern "C" {
#include "catalog/pg_type.h"
#include "common/cryptohash.h"
#include "common/sha2.h"
#include "miscadmin.h"
#include "utils/array.h"
}

namespace shortener {

namespace {

const ErrorText& text_of(const CheckedUrl& url) {
    return url.url_error != UrlError::none ? error_text(url.url_error) : error_text(url.link_error);
}

struct Patterns {
    Datum* elements = nullptr;
    int count = 0;
    int capacity = 0;

    void append(std::string_view pattern) {
        if (count == capacity) {
            capacity = capacity ? 2 * capacity : 16;
            const Size size = sizeof(Datum) * capacity;
            elements = static_cast<Datum*>(elements ? repalloc(elements, size) : palloc(size));
        }
        elements[count++] = text_datum(pattern);
    }
};

template <typename Visit> void each_pattern_of(const CheckedUrl& url, Visit&& visit) {
    char* const storage = static_cast<char*>(palloc(url.host.size() + 1));
    each_host_pattern(url.host, {storage, url.host.size() + 1}, visit);
}

} // namespace

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
    checked.host =
        host_key(url.hostname, {static_cast<char*>(palloc(url.hostname.size())), url.hostname.size()});
    if (url.href.size() > link_url_max_length)
        checked.link_error = LinkError::url_too_long;
    else if (url.has_credentials())
        checked.link_error = LinkError::has_credentials;
    pfree(storage);
    return checked;
}

void check_hosts(CheckedUrl* urls, int count) {
    static KeptStatement statement("SELECT d.host, true FROM shortener.domain d WHERE d.host "
                                   "OPERATOR(pg_catalog.=) ANY ($patterns) UNION ALL "
                                   "SELECT b.pattern, false FROM shortener.blocked_host b WHERE b.pattern "
                                   "OPERATOR(pg_catalog.=) ANY ($patterns) "
                                   "ORDER BY 1",
                                   {{"patterns", TEXTARRAYOID}});
    Patterns patterns;
    for (int i = 0; i < count; i++)
        if (!urls[i].refused())
            each_pattern_of(urls[i], [&](std::string_view pattern) { patterns.append(pattern); });
    if (patterns.count == 0)
        return;
    const auto section = OwnerSection::to_read({"domain", "blocked_host"});
    const Rows rows =
        statement.run({{"patterns", PointerGetDatum(construct_array(patterns.elements, patterns.count,
                                                                    TEXTOID, -1, false, TYPALIGN_INT))}});
    section.end();
    if (rows.empty())
        return;
    // The columns have collation C, so the rows are in the order of their bytes.
    const auto host_at = [&](uint64 row) { return rows[row].required<std::string_view>(1); };
    const auto first_row = [&](std::string_view pattern) {
        uint64 begin = 0, end = rows.count();
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
        if (!urls[i].refused())
            each_pattern_of(urls[i], [&](std::string_view pattern) {
                for (uint64 row = first_row(pattern); row < rows.count() && host_at(row) == pattern; row++)
                    urls[i].link_error =
                        rows[row].required<bool>(2) ? LinkError::own_domain : LinkError::blocked_host;
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

} // namespace shortener
