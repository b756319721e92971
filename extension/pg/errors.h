#pragma once

// What SQL users read when something is refused: the tables from errors to SQLSTATE, message, detail and hint
// are in errors.cpp.

#include <string_view>

#include "core/base62.h"
#include "core/url.h"

namespace shortener {

enum class LinkError {
    none,
    // of a URL that is one, and makes no link all the same
    null_url,
    url_too_long,
    host_too_long,
    has_credentials,
    own_domain,
    blocked_host,
    // of other arguments
    malformed_alias,
    expiry_in_past,
    unknown_redirect_status,
    unknown_rule,
    unknown_workspace,
    // of the tables as they are
    taken_code,
    no_free_code,
    hidden_link,
};

struct ErrorText {
    int sqlstate;
    const char*
        message; // may have one %s: the offending input, cut to a readable length and without credentials
    const char* detail; // or nullptr
    const char* hint;   // or nullptr
};

const ErrorText& error_text(Base62Error error) noexcept;
const ErrorText& error_text(UrlError error) noexcept;
const ErrorText& error_text(LinkError error) noexcept;

// The message with the input in it, in the current memory context.
char* error_message(const ErrorText& text, std::string_view input);

// Never returns: ereport(ERROR). The caller owns nothing with a destructor.
[[noreturn]] void raise_error(const ErrorText& text, std::string_view input);

template <typename Error> [[noreturn]] void raise(Error error, std::string_view input = {}) {
    raise_error(error_text(error), input);
}

} // namespace shortener
