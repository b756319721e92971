#pragma once

// Absolute http and https URLs as browsers see them: that part of the WHATWG URL Standard
// (https://url.spec.whatwg.org), and rules on top of it that say when two URLs count as the same.
//
// Nothing here allocates. Results are written into storage that the caller gives, at least url_bound(input
// length) bytes, and are views into it. They are pure ASCII. Input is UTF-8, which is checked.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace shortener {

// Longer input, in bytes, is refused before it is looked at, and so is what would give a longer result: every
// result can be read again.
inline constexpr std::size_t url_max_length = 65536;

// A host that needs IDNA may have so many bytes of UTF-8 and become so many of ASCII: Punycode takes
// quadratic time, and ICU encodes no longer label. DNS names end at 253.
inline constexpr std::size_t url_max_idna_length = 1000;

enum class UrlError {
    none,
    too_long,
    invalid_utf8,
    empty,              // nothing but spaces and control characters
    missing_scheme,     // a relative URL
    unsupported_scheme, // neither http nor https
    missing_host,
    forbidden_host_character,
    invalid_host_encoding, // percent-encoded bytes in the host that are no UTF-8
    invalid_idna,
    idna_too_long,
    invalid_ipv4,
    invalid_ipv6,
    invalid_port,
    port_out_of_range,
    idna_failed, // says nothing about the URL: ICU lacks memory or its data
};

// The parts of a canonical URL, without their delimiters.
struct Url {
    std::string_view href;
    std::string_view scheme;
    std::string_view username;
    std::string_view password;
    std::string_view hostname; // an IPv6 address in its brackets
    std::string_view port;     // empty when it is the scheme's own
    std::string_view path;     // starts with a slash
    std::string_view query;
    std::string_view fragment;
    bool has_query = false; // "?" alone is a query, and an empty one
    bool has_fragment = false;

    bool has_credentials() const noexcept { return !username.empty() || !password.empty(); }
};

// What normalize_url does beyond canonical_url; a set of bits.
enum class UrlRules : std::uint8_t {
    none = 0,
    sort_query = 1,           // parameters in order of their decoded names, equal names as they came
    strip_tracking = 2,       // parameters that only tell where a visitor comes from; see url_rules.cpp
    strip_trailing_slash = 4, // all slashes at the end of the path, except that a path is at least "/"
    unify_scheme = 8,         // http becomes https, except on port 443
    all = 15,
};

constexpr UrlRules operator|(UrlRules a, UrlRules b) noexcept {
    return static_cast<UrlRules>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
constexpr bool has_rule(UrlRules rules, UrlRules rule) noexcept {
    return (static_cast<unsigned>(rules) & static_cast<unsigned>(rule)) != 0;
}

// The rule of that name, or none when there is no such rule.
UrlRules url_rule(std::string_view name) noexcept;

// How many bytes of storage any input of this length needs. Does not grow beyond url_max_length.
std::size_t url_bound(std::size_t input_length) noexcept;

// `url` is set only when the answer is none.
UrlError canonical_url(std::string_view input, std::span<char> storage, Url& url) noexcept;

// The key by which two URLs count as the same: the canonical URL changed by the rules, itself a canonical
// URL, and its own key. `key` is set only when the answer is none.
UrlError normalize_url(std::string_view input, UrlRules rules, std::span<char> storage,
                       std::string_view& key) noexcept;

// The same for the URL that canonical_url has just put into that storage, from input of that length.
UrlError normalize_parsed_url(const Url& url, std::size_t input_length, UrlRules rules,
                              std::span<char> storage, std::string_view& key) noexcept;

// A user name with a password, as a view into any text that may have been meant as a URL, so that a message
// can leave them out; rather too much than too little.
std::string_view find_credentials(std::string_view text) noexcept;

} // namespace shortener
