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
#include "utils/memutils.h"
}

namespace shortener {

namespace {

const ErrorText& text_of(const CheckedUrl& url) {
    return url.url_error != UrlError::none ? error_text(url.url_error) : error_text(url.link_error);
}

std::string_view copy(std::string_view text) {
    return {pnstrdup(text.data(), text.size()), text.size()};
}

Digest digest_of(const Workspace& workspace, std::string_view key) {
    unsigned char hash[PG_SHA256_DIGEST_LENGTH];
    pg_cryptohash_ctx* const context = pg_cryptohash_create(PG_SHA256);
    if (pg_cryptohash_init(context) < 0 ||
        pg_cryptohash_update(context, workspace.key, sizeof workspace.key) < 0 ||
        pg_cryptohash_update(context, reinterpret_cast<const uint8*>(key.data()), key.size()) < 0 ||
        pg_cryptohash_final(context, hash, sizeof hash) < 0)
        elog(ERROR, "could not compute SHA-256: %s", pg_cryptohash_error(context));
    pg_cryptohash_free(context);
    Digest digest;
    memcpy(digest.bytes, hash, sizeof digest.bytes);
    return digest;
}

// More than one dot at the end of a host leads nowhere else than none.
std::string_view host_of(const Url& url, std::span<char> storage) {
    std::string_view host = host_key(url.hostname, storage);
    while (host.ends_with('.'))
        host.remove_suffix(1);
    return host;
}

LinkError error_of(const Url& url) {
    if (url.href.size() > link_url_max_length)
        return LinkError::url_too_long;
    if (url.has_credentials())
        return LinkError::has_credentials;
    char host[link_url_max_length];
    if (is_longer_than_dns(host_of(url, host)))
        return LinkError::host_too_long;
    return LinkError::none;
}

// Texts for a statement, each with the place of the URL that it belongs to.
class PlacedTexts {
  public:
    void add(std::string_view text, int place) {
        if (count_ == capacity_) {
            capacity_ = capacity_ ? 2 * capacity_ : 16;
            const Size size = sizeof(Datum) * capacity_;
            texts_ = static_cast<Datum*>(texts_ ? repalloc(texts_, size) : palloc(size));
            places_ = static_cast<Datum*>(places_ ? repalloc(places_, size) : palloc(size));
        }
        texts_[count_] = text_datum(text);
        places_[count_++] = Int32GetDatum(place);
    }
    int count() const { return count_; }
    Datum texts() const {
        return PointerGetDatum(construct_array(texts_, count_, TEXTOID, -1, false, TYPALIGN_INT));
    }
    Datum places() const {
        return PointerGetDatum(construct_array(places_, count_, INT4OID, 4, true, TYPALIGN_INT));
    }

  private:
    Datum* texts_ = nullptr;
    Datum* places_ = nullptr;
    int count_ = 0;
    int capacity_ = 0;
};

struct HostTexts {
    PlacedTexts hosts;    // by which it may be a domain of ours
    PlacedTexts patterns; // by which it may be blocked

    void add(std::string_view host, int place) {
        char storage[host_max_length + 1], twin_storage[twin_max_length];
        hosts.add(host, place);
        each_host_pattern(host, storage, [&](std::string_view pattern) { patterns.add(pattern, place); });
        if (const std::string_view twin = address_twin(host, twin_storage); !twin.empty()) {
            hosts.add(twin, place);
            patterns.add(twin, place);
        }
    }
};

void refuse_hosts(const HostTexts& texts, CheckedUrl* urls) {
    static KeptStatement statement(
        "SELECT h.place, true FROM ROWS FROM (pg_catalog.unnest($hosts), pg_catalog.unnest($host_places))"
        " h (host, place) CROSS JOIN LATERAL (SELECT FROM shortener.domain d"
        "  WHERE d.host OPERATOR(pg_catalog.=) h.host OFFSET 0) d "
        "UNION ALL "
        "SELECT p.place, false FROM ROWS FROM (pg_catalog.unnest($patterns), "
        "pg_catalog.unnest($pattern_places))"
        " p (pattern, place) CROSS JOIN LATERAL (SELECT FROM shortener.blocked_host b"
        "  WHERE b.pattern OPERATOR(pg_catalog.=) p.pattern OFFSET 0) b",
        {{"hosts", TEXTARRAYOID},
         {"host_places", INT4ARRAYOID},
         {"patterns", TEXTARRAYOID},
         {"pattern_places", INT4ARRAYOID}});
    const auto section = OwnerSection::to_read({"domain", "blocked_host"});
    const Rows rows = statement.run({{"hosts", texts.hosts.texts()},
                                     {"host_places", texts.hosts.places()},
                                     {"patterns", texts.patterns.texts()},
                                     {"pattern_places", texts.patterns.places()}});
    section.end();
    for (uint64 i = 0; i < rows.count(); i++)
        urls[rows[i].required<int32>(1)].link_error =
            rows[i].required<bool>(2) ? LinkError::own_domain : LinkError::blocked_host;
}

} // namespace

CheckedUrl check_url(const Workspace& workspace, std::string_view given) {
    const std::string_view input = utf8_from_database(given);
    UrlBuffer buffer(input.size());
    CheckedUrl checked;
    Url url;
    checked.url_error = canonical_url(input, buffer.span(), url);
    if (checked.url_error == UrlError::none)
        checked.link_error = error_of(url);
    if (!checked.refused()) {
        std::string_view key;
        checked.url_error = normalize_parsed_url(url, input.size(), workspace.rules, buffer.span(), key);
        checked.digest = digest_of(workspace, key);
        checked.href = copy(url.href);
        char host[link_url_max_length];
        checked.host = copy(host_of(url, host));
    }
    buffer.release();
    return checked;
}

void check_hosts(CheckedUrl* urls, int count) {
    constexpr int patterns_at_once = 10'000; // so that many URLs take no more memory than some
    const MemoryContext batch =
        AllocSetContextCreate(CurrentMemoryContext, "shortener hosts", ALLOCSET_DEFAULT_SIZES);
    const MemoryContext caller = MemoryContextSwitchTo(batch);
    for (int i = 0; i < count;) {
        HostTexts texts;
        for (; i < count && texts.patterns.count() < patterns_at_once; i++)
            if (!urls[i].refused())
                texts.add(urls[i].host, i);
        if (texts.patterns.count() > 0)
            refuse_hosts(texts, urls);
        MemoryContextReset(batch);
        CHECK_FOR_INTERRUPTS();
    }
    MemoryContextSwitchTo(caller);
    MemoryContextDelete(batch);
}

void raise_refusal(const CheckedUrl& url, std::string_view given) {
    raise_error(text_of(url), given);
}

char* refusal_message(const CheckedUrl& url, std::string_view given) {
    return error_message(text_of(url), given);
}

Datum digest_datum(const Digest& digest) {
    bytea* const value = static_cast<bytea*>(palloc(VARHDRSZ + digest_size));
    SET_VARSIZE(value, VARHDRSZ + digest_size);
    memcpy(VARDATA(value), digest.bytes, digest_size);
    return PointerGetDatum(value);
}

} // namespace shortener
