#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "clock.h"

namespace shortener {

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

// What a workspace says on its two pages instead of the built-in sentences.
struct PageTexts {
    std::optional<std::string> not_found;
    std::optional<std::string> gone;
};

} // namespace shortener
