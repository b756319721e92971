#include "pg/stored_url.h"

#include <algorithm>
#include <cstring>

#include "pg/accepted_url.h"
#include "pg/guard.h"
#include "pg/workspace_memory.h"

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

bool is_digest_of(const CheckedUrl& checked, std::string_view digest) {
    return digest.size() == digest_size && std::memcmp(checked.digest.bytes, digest.data(), digest_size) == 0;
}

} // namespace

bool has_right_digest(const StoredUrl& url) {
    if (!url.url_digest.data() || was_accepted(url))
        return true;
    const CheckedUrl checked = check_url(find_workspace(url.workspace_id), url.original_url);
    return !checked.refused() && is_digest_of(checked, url.url_digest);
}

void check_stored_urls(const StoredUrl* urls, int count) {
    CheckedUrl* const checked = static_cast<CheckedUrl*>(palloc(sizeof(CheckedUrl) * count));
    Workspace workspace{};
    for (int i = 0; i < count; i++) {
        const StoredUrl& url = urls[i];
        if (workspace.id != url.workspace_id)
            workspace = find_workspace(url.workspace_id);
        checked[i] = check_url(workspace, url.original_url);
        if (checked[i].refused())
            raise_refusal(checked[i], url.original_url);
        if (checked[i].href != url.original_url)
            ereport(ERROR, (errcode(ERRCODE_CHECK_VIOLATION),
                            errmsg("URL of link \"%.*s\" is not in its canonical form",
                                   static_cast<int>(url.short_code.size()), url.short_code.data()),
                            errhint("Store the result of shortener.canonical_url().")));
        if (url.url_digest.data() && !is_digest_of(checked[i], url.url_digest))
            ereport(ERROR, (errcode(ERRCODE_CHECK_VIOLATION),
                            errmsg("url_digest of link \"%.*s\" is not the digest of its URL",
                                   static_cast<int>(url.short_code.size()), url.short_code.data()),
                            errhint("Store NULL for a link of its own, or use shortener.shorten().")));
    }
    check_hosts(checked, count);
    for (int i = 0; i < count; i++)
        if (checked[i].refused())
            raise_refusal(checked[i], urls[i].original_url);
}

} // namespace shortener
