#pragma once

// What SQL users read when the core refuses something: the one table from core errors to SQLSTATE, message,
// detail and hint is errors.cpp.

#include <string_view>

#include "core/base62.h"
#include "core/url.h"

namespace shortener {

// Why a URL that is one makes no link.
enum class LinkError { none, no_url, url_too_long, has_credentials, own_domain, blocked_host };

struct ErrorText {
    int sqlstate;
    const char* message; // may have one %s: the offending input, cut to a readable length
    const char* detail;  // or nullptr
    const char* hint;    // or nullptr
};

const ErrorText& error_text(Base62Error error) noexcept;
const ErrorText& error_text(UrlError error) noexcept;
const ErrorText& unknown_url_rule_text() noexcept;
const ErrorText& error_text(LinkError error) noexcept;

// The message with the input in it, in the current memory context.
char* error_message(const ErrorText& text, std::string_view input);

// Never returns: ereport(ERROR). The caller owns nothing with a destructor.
[[noreturn]] void raise_error(const ErrorText& text, std::string_view input);

} // namespace shortener
