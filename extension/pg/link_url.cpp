#include "pg/link_url.h"

#include "core/host.h"

#include "pg/guard.h"
#include "pg/text.h"
#include "pg/url.h"

extern "C" {
#include "common/cryptohash.h"
#include "common/sha2.h"
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
std::string_view host_without_dots(const Url& url, std::span<char> storage) {
    std::string_view host = host_from_header(url.hostname, storage);
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
    if (is_longer_than_dns(host_without_dots(url, host)))
        return LinkError::host_too_long;
    return LinkError::none;
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
        checked.host = copy(host_without_dots(url, host));
    }
    buffer.release();
    return checked;
}

void check_hosts(CheckedUrl* urls, int count) {
    const Size size = sizeof(std::string_view) * (count + 1);
    std::string_view* const hosts = static_cast<std::string_view*>(palloc_extended(size, MCXT_ALLOC_HUGE));
    HostStatus* const statuses = static_cast<HostStatus*>(palloc(sizeof(HostStatus) * (count + 1)));
    for (int i = 0; i < count; i++)
        hosts[i] = urls[i].refused() ? std::string_view() : urls[i].host;
    find_host_statuses(hosts, statuses, count);
    for (int i = 0; i < count; i++)
        if (!urls[i].refused() && statuses[i] != HostStatus::free)
            urls[i].link_error =
                statuses[i] == HostStatus::own_domain ? LinkError::own_domain : LinkError::blocked_host;
    pfree(hosts);
    pfree(statuses);
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
