#include "pg/stored_url.h"

#include <algorithm>
#include <cstring>

#include "pg/accepted_url.h"
#include "pg/guard.h"
#include "pg/owner_section.h"
#include "pg/plans.h"
#include "pg/text.h"
#include "pg/url.h"

extern "C" {
#include "catalog/pg_type.h"
#include "utils/array.h"
}

namespace shortener {

const AcceptedUrls* accepted_urls = nullptr;

bool AcceptedUrls::contains(int32 workspace, std::string_view href, std::string_view digest) const {
    if (workspace != workspace_id)
        return false;
    if (!digest.data())
        return count == 1 && href == urls->href;
    if (digest.size() != digest_size)
        return false;
    const AcceptedUrl* const end = urls + count;
    const AcceptedUrl* const url =
        std::lower_bound(urls, end, digest, [](const AcceptedUrl& url, std::string_view wanted) {
            return std::memcmp(url.digest.bytes, wanted.data(), digest_size) < 0;
        });
    return url != end && std::memcmp(url->digest.bytes, digest.data(), digest_size) == 0 && url->href == href;
}

bool was_accepted(const StoredUrl& url) {
    return accepted_urls && accepted_urls->contains(url.workspace_id, url.original_url, url.url_digest);
}

namespace {

// What the digests of a workspace depend on.
Workspace digest_workspace(int32 id) {
    static KeptStatement statement(
        "SELECT w.rules::pg_catalog.text[], k.key::pg_catalog.bytea FROM shortener.workspace w"
        " JOIN shortener.workspace_key k ON k.workspace_id OPERATOR(pg_catalog.=) w.id"
        " WHERE w.id OPERATOR(pg_catalog.=) $1",
        {INT4OID});
    const Datum values[] = {Int32GetDatum(id)};
    const auto section = OwnerSection::to_read({"workspace", "workspace_key"});
    statement.run(values);
    section.end();
    bool has_no_rules = true, has_no_key = true;
    Workspace workspace{};
    workspace.id = id;
    if (SPI_processed == 1) {
        const Datum rules = result_value(0, 1, has_no_rules), key = result_value(0, 2, has_no_key);
        if (!has_no_rules && !has_no_key) {
            workspace.rules = url_rules_from_array(DatumGetArrayTypeP(rules));
            text_view(key).copy(reinterpret_cast<char*>(workspace.key), sizeof workspace.key);
        }
    }
    if (has_no_rules || has_no_key)
        ereport(ERROR, (errcode(ERRCODE_FOREIGN_KEY_VIOLATION), errmsg("workspace %d has no key", id)));
    SPI_freetuptable(SPI_tuptable);
    return workspace;
}

bool is_digest_of(const CheckedUrl& checked, const Workspace& workspace, std::string_view digest) {
    const Digest right = digest_of(workspace, checked);
    return digest.size() == digest_size && std::memcmp(right.bytes, digest.data(), digest_size) == 0;
}

} // namespace

bool has_right_digest(const StoredUrl& url) {
    if (!url.url_digest.data() || was_accepted(url))
        return true;
    const CheckedUrl checked = check_url(url.original_url);
    return !checked.refused() && is_digest_of(checked, digest_workspace(url.workspace_id), url.url_digest);
}

void check_stored_urls(const StoredUrl* urls, int count) {
    CheckedUrl* const checked = static_cast<CheckedUrl*>(palloc(sizeof(CheckedUrl) * count));
    Datum* patterns = nullptr;
    int pattern_count = 0, capacity = 0;
    Workspace workspace{};
    for (int i = 0; i < count; i++) {
        const StoredUrl& url = urls[i];
        checked[i] = check_url(url.original_url);
        if (checked[i].refused())
            raise_refusal(checked[i], url.original_url);
        if (checked[i].href != url.original_url)
            ereport(ERROR, (errcode(ERRCODE_CHECK_VIOLATION),
                            errmsg("URL of link \"%.*s\" is not in its canonical form",
                                   static_cast<int>(url.short_code.size()), url.short_code.data()),
                            errhint("Store the result of shortener.canonical_url().")));
        if (url.url_digest.data()) {
            if (workspace.id != url.workspace_id)
                workspace = digest_workspace(url.workspace_id);
            if (!is_digest_of(checked[i], workspace, url.url_digest))
                ereport(ERROR, (errcode(ERRCODE_CHECK_VIOLATION),
                                errmsg("url_digest of link \"%.*s\" is not the digest of its URL",
                                       static_cast<int>(url.short_code.size()), url.short_code.data()),
                                errhint("Store NULL for a link of its own, or use shortener.shorten().")));
        }
        append_host_patterns(checked[i], patterns, pattern_count, capacity);
    }
    if (pattern_count == 0)
        return;
    check_hosts(checked, count, patterns, pattern_count);
    for (int i = 0; i < count; i++)
        if (checked[i].refused())
            raise_refusal(checked[i], urls[i].original_url);
}

} // namespace shortener
