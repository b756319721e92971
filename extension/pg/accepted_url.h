#pragma once

// What a function of ours has just checked, told to the triggers of link, so that they need not check it
// again.

#include <string_view>

#include "pg/link_url.h"

extern "C" {
#include "postgres.h"
}

namespace shortener {

struct AcceptedUrl {
    std::string_view href;
    Digest digest;
    std::string_view new_code; // a scrambled one, checked too, which nobody can have guessed; no data: none
};

// URLs that may be stored in a workspace, in the order of their digests.
struct AcceptedUrls {
    int32 workspace_id;
    const AcceptedUrl* urls;
    int count;

    // What a link leads to that may be stored, without a digest (no data) as a link of its own; nullptr if it
    // may not.
    const AcceptedUrl* find(int32 workspace, std::string_view href, std::string_view digest) const;
};

// Those of the statement that is running, if any.
extern const AcceptedUrls* accepted_urls;

// Runs `store`, whose statement stores links with these URLs. What a user's trigger stores meanwhile is
// compared with them like everything else.
template <typename Store> void store_accepted(const AcceptedUrls& urls, Store&& store) {
    const AcceptedUrls* const outer = accepted_urls;
    accepted_urls = &urls;
    PG_TRY();
    { store(); }
    PG_FINALLY();
    { accepted_urls = outer; }
    PG_END_TRY();
}

} // namespace shortener
