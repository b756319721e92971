#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "http/message.h"

namespace shortener {

using Clock = std::chrono::steady_clock;

// What a workspace says on its two pages instead of the built-in sentences.
struct PageTexts {
    std::optional<std::string> not_found;
    std::optional<std::string> gone;
};

// What the database said about a code, with its times on this process's clock.
struct Resolution {
    int status = 404;     // 301, 302, 307, 308, 404 or 410
    std::string location; // of a redirect
    std::int64_t link_id = 0;
    std::int64_t workspace_id = 0;
    Clock::time_point expires = Clock::time_point::max(); // of the link
};

// The status that holds now: an expired link is gone, whatever it was when it was read.
inline int status_at(const Resolution& resolution, Clock::time_point now) {
    return resolution.location.empty() || now < resolution.expires ? resolution.status : 410;
}

// The answer to a request for a code. `texts` may be null.
Response respond(const Request& request, const Resolution& resolution, const PageTexts* texts,
                 Clock::time_point now);

// Answers that need no database.
Response respond_not_found(const Request& request);
Response respond_unavailable(const Request& request);
Response respond_robots(const Request& request);
Response respond_favicon(const Request& request);
// The connection is closed after it.
Response respond_refused(int status);

} // namespace shortener
