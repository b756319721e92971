#include "pg/errors.h"

#include <iterator>

extern "C" {
#include "postgres.h"

#include "mb/pg_wchar.h"
}

namespace shortener {

const ErrorText& error_text(Base62Error error) noexcept {
    static constexpr ErrorText texts[] = {
        {ERRCODE_INTERNAL_ERROR, "no error", nullptr, nullptr},
        {ERRCODE_INVALID_TEXT_REPRESENTATION, "base62 code is empty", nullptr, nullptr},
        {ERRCODE_INVALID_TEXT_REPRESENTATION, "base62 code \"%s\" has a character outside 0-9a-zA-Z", nullptr,
         nullptr},
        {ERRCODE_INVALID_TEXT_REPRESENTATION, "base62 code \"%s\" has a leading zero",
         "Each number has one code; only zero itself starts with 0.", nullptr},
        {ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE, "base62 code \"%s\" is out of range for type bigint",
         "The largest code is \"aZl8N0y58M7\", 9223372036854775807.", nullptr},
        {ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE, "cannot encode the negative number %s in base62",
         "Base62 codes stand for 0 to 9223372036854775807.", nullptr},
    };
    static_assert(std::size(texts) == static_cast<std::size_t>(Base62Error::negative) + 1);
    return texts[static_cast<int>(error)];
}

const ErrorText& error_text(UrlError error) noexcept {
    static constexpr ErrorText texts[] = {
        {ERRCODE_INTERNAL_ERROR, "no error", nullptr, nullptr},
        {ERRCODE_PROGRAM_LIMIT_EXCEEDED, "URL \"%s\" is too long",
         "A URL may have at most 65536 bytes, as given and percent-encoded.", nullptr},
        {ERRCODE_CHARACTER_NOT_IN_REPERTOIRE, "URL is not valid UTF-8",
         "A database with encoding SQL_ASCII does not check this itself.", nullptr},
        {ERRCODE_INVALID_TEXT_REPRESENTATION, "URL is empty", nullptr, nullptr},
        {ERRCODE_INVALID_TEXT_REPRESENTATION, "URL \"%s\" has no scheme",
         "A relative URL has no meaning here.", "Start it with https:// or http://."},
        {ERRCODE_INVALID_TEXT_REPRESENTATION, "URL \"%s\" has a scheme other than http and https", nullptr,
         "Start it with https:// or http://."},
        {ERRCODE_INVALID_TEXT_REPRESENTATION, "URL \"%s\" has no host", nullptr, nullptr},
        {ERRCODE_INVALID_TEXT_REPRESENTATION, "URL \"%s\" has a forbidden character in its host",
         "Spaces, control characters and # % / : < > ? @ [ \\ ] ^ | cannot be part of a host.", nullptr},
        {ERRCODE_INVALID_TEXT_REPRESENTATION,
         "URL \"%s\" has percent-encoded bytes in its host that are not UTF-8", nullptr, nullptr},
        {ERRCODE_INVALID_TEXT_REPRESENTATION,
         "URL \"%s\" has a host that is not a valid international domain name",
         "Unicode Technical Standard 46 refuses it.", nullptr},
        {ERRCODE_PROGRAM_LIMIT_EXCEEDED, "URL \"%s\" has an international host that is too long",
         "It may have at most 1000 bytes, in UTF-8 and in Punycode.", nullptr},
        {ERRCODE_INVALID_TEXT_REPRESENTATION, "URL \"%s\" has an invalid IPv4 address as its host",
         "A host whose last label is a number is an IPv4 address.", nullptr},
        {ERRCODE_INVALID_TEXT_REPRESENTATION, "URL \"%s\" has an invalid IPv6 address as its host",
         "A host that starts with a bracket is an IPv6 address, without a zone.", nullptr},
        {ERRCODE_INVALID_TEXT_REPRESENTATION, "URL \"%s\" has a port that is not a number", nullptr, nullptr},
        {ERRCODE_INVALID_TEXT_REPRESENTATION, "URL \"%s\" has a port beyond 65535", nullptr, nullptr},
        {ERRCODE_EXTERNAL_ROUTINE_EXCEPTION, "ICU could not read the host of URL \"%s\"",
         "It lacks memory or its data files.", nullptr},
    };
    static_assert(std::size(texts) == static_cast<std::size_t>(UrlError::idna_failed) + 1);
    static_assert(url_max_length == 65536 && url_max_idna_length == 1000, "the texts name them");
    return texts[static_cast<int>(error)];
}

const ErrorText& unknown_url_rule_text() noexcept {
    static constexpr ErrorText text = {
        ERRCODE_INVALID_PARAMETER_VALUE, "unknown URL rule \"%s\"", nullptr,
        "The rules are sort_query, strip_tracking, strip_trailing_slash and unify_scheme."};
    return text;
}

const ErrorText& error_text(LinkError error) noexcept {
    static constexpr ErrorText texts[] = {
        {ERRCODE_INTERNAL_ERROR, "no error", nullptr, nullptr},
        {ERRCODE_NULL_VALUE_NOT_ALLOWED, "URL is null", nullptr, nullptr},
        {ERRCODE_STRING_DATA_RIGHT_TRUNCATION, "URL \"%s\" is longer than 2048 characters",
         "It is counted in its canonical form, in which a character beyond ASCII takes six or more.",
         nullptr},
        {ERRCODE_INVALID_PARAMETER_VALUE, "URL \"%s\" has a user name or password",
         "A short link would publish it.", nullptr},
        {ERRCODE_INVALID_PARAMETER_VALUE, "URL \"%s\" leads to a domain of this shortener",
         "A short link to a short link may go in circles.", nullptr},
        {ERRCODE_INVALID_PARAMETER_VALUE, "URL \"%s\" leads to a blocked host",
         "Blocked hosts are in shortener.blocked_host.", nullptr},
    };
    static_assert(std::size(texts) == static_cast<std::size_t>(LinkError::blocked_host) + 1);
    return texts[static_cast<int>(error)];
}

// The input as a message shows it.
static char* readable(std::string_view input) {
    constexpr int readable_length = 64;
    const int length = static_cast<int>(input.size());
    return length <= readable_length
               ? pnstrdup(input.data(), length)
               : psprintf("%.*s...", pg_mbcliplen(input.data(), length, readable_length), input.data());
}

char* error_message(const ErrorText& text, std::string_view input) {
    return psprintf(text.message, readable(input));
}

void raise_error(const ErrorText& text, std::string_view input) {
    ereport(ERROR,
            (errcode(text.sqlstate), errmsg(text.message, readable(input)),
             text.detail ? errdetail("%s", text.detail) : 0, text.hint ? errhint("%s", text.hint) : 0));
}

} // namespace shortener
