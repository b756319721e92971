#pragma once

// The rules for the URL of a link, held against whoever writes to the table without our functions.

#include <string_view>

extern "C" {
#include "postgres.h"
}

namespace shortener {

// A link as a statement has stored it.
struct StoredUrl {
    int32 workspace_id;
    std::string_view short_code;
    std::string_view original_url;
    std::string_view url_digest; // no data: NULL
};

// Whether the function whose statement is running has checked the URL and given it this digest, or none.
bool was_accepted(const StoredUrl& url);

// Whether it has also found that its code was never used.
bool was_generated(const StoredUrl& url);

// Raises an error for the first that leads where no link may lead, or has a digest other than that of its
// URL. Between SPI_connect and SPI_finish.
void check_stored_urls(const StoredUrl* urls, int count);

// Whether create-or-get may give this link for its URL. Between SPI_connect and SPI_finish.
bool has_right_digest(const StoredUrl& url);

} // namespace shortener
