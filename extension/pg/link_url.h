#pragma once

// What a URL must be to become the target of a link, and by what create-or-get knows it.

#include <string_view>

#include "core/url.h"

#include "pg/errors.h"
#include "pg/workspace_memory.h"

extern "C" {
#include "postgres.h"
}

namespace shortener {

inline constexpr std::size_t link_url_max_length = 2048;
inline constexpr std::size_t digest_size = 11;

// Of a normalized URL, under the key of its workspace.
struct Digest {
    unsigned char bytes[digest_size];
};

// A URL on its way to become a link. The views live in the memory context in which it was checked.
struct CheckedUrl {
    UrlError url_error = UrlError::none;
    LinkError link_error = LinkError::none;
    std::string_view href; // canonical
    std::string_view host; // as in the domain table
    Digest digest;
    bool refused() const { return url_error != UrlError::none || link_error != LinkError::none; }
};

// The checks that need no table.
CheckedUrl check_url(const Workspace& workspace, std::string_view given);

// Refuses those of the URLs that lead to one of our domains or to a blocked host.
void check_hosts(CheckedUrl* urls, int count);

[[noreturn]] void raise_refusal(const CheckedUrl& url, std::string_view given);
char* refusal_message(const CheckedUrl& url, std::string_view given);

Datum digest_datum(const Digest& digest);

} // namespace shortener
