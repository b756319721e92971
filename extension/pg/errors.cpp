#include "pg/errors.h"

#include <cstddef>

extern "C" {
#include "postgres.h"

#include "mb/pg_wchar.h"
}

namespace shortener {

namespace {

template <typename Error> struct Entry {
    Error error;
    ErrorText text;
};

// Whether the table has a row for each error up to `last`, in the order of the enum.
template <typename Error, std::size_t size>
constexpr bool is_complete(const Entry<Error> (&table)[size], Error last) {
    for (std::size_t i = 0; i < size; i++)
        if (static_cast<std::size_t>(table[i].error) != i)
            return false;
    return static_cast<std::size_t>(last) + 1 == size;
}

constexpr Entry<Base62Error> base62_errors[] = {
    {Base62Error::none, {ERRCODE_INTERNAL_ERROR, "no error", nullptr, nullptr}},
    {Base62Error::empty, {ERRCODE_INVALID_TEXT_REPRESENTATION, "base62 code is empty", nullptr, nullptr}},
    {Base62Error::foreign_character,
     {ERRCODE_INVALID_TEXT_REPRESENTATION, "base62 code \"%s\" has a character outside 0-9a-zA-Z", nullptr,
      nullptr}},
    {Base62Error::leading_zero,
     {ERRCODE_INVALID_TEXT_REPRESENTATION, "base62 code \"%s\" has a leading zero",
      "Each number has one code; only zero itself starts with 0.", nullptr}},
    {Base62Error::out_of_range,
     {ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE, "base62 code \"%s\" is out of range for type bigint",
      "The largest code is \"aZl8N0y58M7\", 9223372036854775807.", nullptr}},
    {Base62Error::negative,
     {ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE, "cannot encode the negative number %s in base62",
      "Base62 codes stand for 0 to 9223372036854775807.", nullptr}},
};
static_assert(is_complete(base62_errors, Base62Error::negative));

constexpr Entry<UrlError> url_errors[] = {
    {UrlError::none, {ERRCODE_INTERNAL_ERROR, "no error", nullptr, nullptr}},
    {UrlError::too_long,
     {ERRCODE_PROGRAM_LIMIT_EXCEEDED, "URL \"%s\" is too long",
      "A URL may have at most 65536 bytes, as given and percent-encoded.", nullptr}},
    {UrlError::invalid_utf8,
     {ERRCODE_CHARACTER_NOT_IN_REPERTOIRE, "URL is not valid UTF-8",
      "A database with encoding SQL_ASCII does not check this itself.", nullptr}},
    {UrlError::empty, {ERRCODE_INVALID_TEXT_REPRESENTATION, "URL is empty", nullptr, nullptr}},
    {UrlError::missing_scheme,
     {ERRCODE_INVALID_TEXT_REPRESENTATION, "URL \"%s\" has no scheme", "A relative URL has no meaning here.",
      "Start it with https:// or http://."}},
    {UrlError::unsupported_scheme,
     {ERRCODE_INVALID_TEXT_REPRESENTATION, "URL \"%s\" has a scheme other than http and https", nullptr,
      "Start it with https:// or http://."}},
    {UrlError::missing_host,
     {ERRCODE_INVALID_TEXT_REPRESENTATION, "URL \"%s\" has no host", nullptr, nullptr}},
    {UrlError::forbidden_host_character,
     {ERRCODE_INVALID_TEXT_REPRESENTATION, "URL \"%s\" has a forbidden character in its host",
      "Spaces, control characters and # % / : < > ? @ [ \\ ] ^ | cannot be part of a host.", nullptr}},
    {UrlError::invalid_host_encoding,
     {ERRCODE_INVALID_TEXT_REPRESENTATION,
      "URL \"%s\" has percent-encoded bytes in its host that are not UTF-8", nullptr, nullptr}},
    {UrlError::invalid_idna,
     {ERRCODE_INVALID_TEXT_REPRESENTATION,
      "URL \"%s\" has a host that is not a valid international domain name",
      "Unicode Technical Standard 46 refuses it.", nullptr}},
    {UrlError::idna_too_long,
     {ERRCODE_PROGRAM_LIMIT_EXCEEDED, "URL \"%s\" has an international host that is too long",
      "It may have at most 1000 bytes, in UTF-8 and in Punycode.", nullptr}},
    {UrlError::invalid_ipv4,
     {ERRCODE_INVALID_TEXT_REPRESENTATION, "URL \"%s\" has an invalid IPv4 address as its host",
      "A host whose last label is a number is an IPv4 address.", nullptr}},
    {UrlError::invalid_ipv6,
     {ERRCODE_INVALID_TEXT_REPRESENTATION, "URL \"%s\" has an invalid IPv6 address as its host",
      "A host that starts with a bracket is an IPv6 address, without a zone.", nullptr}},
    {UrlError::invalid_port,
     {ERRCODE_INVALID_TEXT_REPRESENTATION, "URL \"%s\" has a port that is not a number", nullptr, nullptr}},
    {UrlError::port_out_of_range,
     {ERRCODE_INVALID_TEXT_REPRESENTATION, "URL \"%s\" has a port beyond 65535", nullptr, nullptr}},
    {UrlError::idna_failed,
     {ERRCODE_EXTERNAL_ROUTINE_EXCEPTION, "ICU could not read the host of URL \"%s\"",
      "It lacks memory or its data files.", nullptr}},
};
static_assert(is_complete(url_errors, UrlError::idna_failed));
static_assert(url_max_length == 65536 && url_max_idna_length == 1000, "the texts name them");

constexpr Entry<LinkError> link_errors[] = {
    {LinkError::none, {ERRCODE_INTERNAL_ERROR, "no error", nullptr, nullptr}},
    {LinkError::null_url, {ERRCODE_NULL_VALUE_NOT_ALLOWED, "URL is null", nullptr, nullptr}},
    {LinkError::url_too_long,
     {ERRCODE_STRING_DATA_RIGHT_TRUNCATION, "URL \"%s\" is longer than 2048 characters",
      "It is counted in its canonical form, in which a character beyond ASCII takes six or more.", nullptr}},
    {LinkError::host_too_long,
     {ERRCODE_INVALID_PARAMETER_VALUE, "URL \"%s\" has a host that is too long",
      "A host has at most 253 characters and 127 labels.", nullptr}},
    {LinkError::has_credentials,
     {ERRCODE_INVALID_PARAMETER_VALUE, "URL \"%s\" has a user name or password",
      "A short link would publish it.", nullptr}},
    {LinkError::own_domain,
     {ERRCODE_INVALID_PARAMETER_VALUE, "URL \"%s\" leads to a domain of this shortener",
      "A short link to a short link may go in circles.", nullptr}},
    {LinkError::blocked_host,
     {ERRCODE_INVALID_PARAMETER_VALUE, "URL \"%s\" leads to a blocked host",
      "Blocked hosts are in shortener.blocked_host.", nullptr}},
    {LinkError::malformed_alias,
     {ERRCODE_INVALID_PARAMETER_VALUE, "\"%s\" is not a valid alias",
      "An alias has 1 to 50 characters of A-Z, a-z, 0-9, _ and -.", nullptr}},
    {LinkError::expiry_in_past,
     {ERRCODE_INVALID_PARAMETER_VALUE, "expires_at \"%s\" is in the past", nullptr,
      "Use a later time, or 'infinity' for a link that never expires."}},
    {LinkError::unknown_redirect_status,
     {ERRCODE_INVALID_PARAMETER_VALUE, "redirect_status %s is not one of 301, 302, 307 and 308", nullptr,
      nullptr}},
    {LinkError::unknown_rule,
     {ERRCODE_INVALID_PARAMETER_VALUE, "unknown URL rule \"%s\"", nullptr,
      "The rules are sort_query, strip_tracking, strip_trailing_slash and unify_scheme."}},
    {LinkError::unknown_workspace,
     {ERRCODE_UNDEFINED_OBJECT, "workspace \"%s\" does not exist", nullptr,
      "SELECT shortener.create_workspace(...);"}},
    {LinkError::taken_code,
     {ERRCODE_UNIQUE_VIOLATION, "short code \"%s\" is taken", nullptr, "Choose another alias."}},
    {LinkError::no_free_code,
     {ERRCODE_PROGRAM_LIMIT_EXCEEDED, "found no free short code in %s attempts", nullptr,
      "Aliases may have taken these codes; another call tries the next ones."}},
    {LinkError::hidden_link,
     {ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE, "link \"%s\" could be neither created nor found",
      "A trigger or a row-level security policy on shortener.link drops or hides it.", nullptr}},
};
static_assert(is_complete(link_errors, LinkError::hidden_link));

// The input as a message shows it.
char* readable(std::string_view input) {
    constexpr std::size_t readable_length = 64;
    const auto cut = [](std::string_view text) {
        const int length = static_cast<int>(text.size());
        return text.size() <= readable_length
                   ? pnstrdup(text.data(), text.size())
                   : psprintf("%.*s...", pg_mbcliplen(text.data(), length, readable_length), text.data());
    };
    const std::string_view credentials = find_credentials(input);
    if (credentials.empty())
        return cut(input);
    const std::string_view before =
        input.substr(0, static_cast<std::size_t>(credentials.data() - input.data()));
    return psprintf("%s***%s", cut(before), cut(input.substr(before.size() + credentials.size())));
}

} // namespace

const ErrorText& error_text(Base62Error error) noexcept {
    return base62_errors[static_cast<int>(error)].text;
}

const ErrorText& error_text(UrlError error) noexcept {
    return url_errors[static_cast<int>(error)].text;
}

const ErrorText& error_text(LinkError error) noexcept {
    return link_errors[static_cast<int>(error)].text;
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
