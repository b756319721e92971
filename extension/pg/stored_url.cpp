#include "pg/stored_url.h"

#include <algorithm>
#include <cstring>

#include "pg/accepted_url.h"
#include "pg/guard.h"
#include "pg/workspace_memory.h"

namespace shortener {

const AcceptedUrls* accepted_urls = nullptr;

const AcceptedUrl* AcceptedUrls::find(int32 workspace, std::string_view href, std::string_view digest) const {
    if (workspace != workspace_id)
        return nullptr;
    if (!digest.data())
        return count == 1 && href == urls->href ? urls : nullptr;
    if (digest.size() != digest_size)
        return nullptr;
    const AcceptedUrl* const end = urls + count;
    const AcceptedUrl* const url =
        std::lower_bound(urls, end, digest, [](const AcceptedUrl& url, std::string_view wanted) {
            return std::memcmp(url.digest.bytes, wanted.data(), digest_size) < 0;
        });
    return url != end && std::memcmp(url->digest.bytes, digest.data(), digest_size) == 0 && url->href == href
               ? url
               : nullptr;
}

static const AcceptedUrl* find_accepted(const StoredUrl& url) {
    return accepted_urls ? accepted_urls->find(url.workspace_id, url.original_url, url.url_digest) : nullptr;
}

bool was_accepted(const StoredUrl& url) {
    return find_accepted(url) != nullptr;
}

bool was_generated(const StoredUrl& url) {
    const AcceptedUrl* const accepted = find_accepted(url);
    return accepted && accepted->new_code == url.short_code;
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
