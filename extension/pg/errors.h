#pragma once

// What SQL users read when the core refuses something: the one table from core errors to SQLSTATE, message,
// detail and hint is errors.cpp.

#include <string_view>

#include "core/base62.h"
#include "core/url.h"

namespace shortener {

struct ErrorText {
    int sqlstate;
    const char* message; // may have one %s: the offending input, cut to a readable length
    const char* detail;  // or nullptr
    const char* hint;    // or nullptr
};

const ErrorText& error_text(Base62Error error) noexcept;
const ErrorText& error_text(UrlError error) noexcept;
const ErrorText& unknown_url_rule_text() noexcept;

// Never returns: ereport(ERROR). The caller owns nothing with a destructor.
[[noreturn]] void raise_error(const ErrorText& text, std::string_view input);

} // namespace shortener
