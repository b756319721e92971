#pragma once

#include "clock.h"
#include "http/message.h"
#include "resolution.h"

namespace shortener {

// The answer to a request for a code. `texts` may be null.
Response respond(const Request& request, const Resolution& resolution, const PageTexts* texts,
                 Clock::time_point now);

// Answers that need no database.
Response respond_not_found(const Request& request);
Response respond_unavailable(const Request& request);
Response respond_robots(const Request& request);
Response respond_favicon(const Request& request);

} // namespace shortener
