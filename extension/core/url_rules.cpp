#include "core/url.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/ascii.h"
#include "core/url_storage.h"

namespace shortener {

namespace {

// Query parameters that tell where a visitor comes from and nothing about what is to be shown, in lower case.
// A name that ends in * stands for all that start so. docs/urls.md says whose they are.
constexpr std::string_view tracking_parameters[] = {
    "_hsenc",    "_hsmi",   "dclid",  "fbclid",  "gbraid",  "gclid",       "gclsrc",     "igshid",
    "li_fat_id", "mc_cid",  "mc_eid", "mkt_tok", "msclkid", "oly_anon_id", "oly_enc_id", "ref_src",
    "s_cid",     "srsltid", "ttclid", "twclid",  "utm_*",   "vero_id",     "wbraid",     "yclid",
};

constexpr std::size_t longest_tracking_parameter = [] {
    std::size_t longest = 0;
    for (const std::string_view pattern : tracking_parameters)
        longest = std::max(longest, pattern.size());
    return longest;
}();

// Reads a parameter's name as application/x-www-form-urlencoded: + is a space, %XX a byte.
struct DecodedName {
    std::string_view rest;

    bool at_end() const noexcept { return rest.empty(); }

    unsigned char next() noexcept {
        const char c = rest[0];
        if (c == '%' && rest.size() > 2 && hex_value(rest[1]) >= 0 && hex_value(rest[2]) >= 0) {
            const int byte = hex_value(rest[1]) * 16 + hex_value(rest[2]);
            rest.remove_prefix(3);
            return static_cast<unsigned char>(byte);
        }
        rest.remove_prefix(1);
        return c == '+' ? ' ' : static_cast<unsigned char>(c);
    }
};

// Less than, equal to or greater than 0, byte by byte.
int compare_names(std::string_view a_text, std::string_view b_text) noexcept {
    DecodedName a{a_text}, b{b_text};
    while (!a.at_end() && !b.at_end())
        if (const int difference = a.next() - b.next())
            return difference;
    return a.at_end() ? (b.at_end() ? 0 : -1) : 1;
}

bool is_tracking(std::string_view name) noexcept {
    // One character more than the longest in the table is enough to tell any name from it.
    char decoded[longest_tracking_parameter + 1];
    std::size_t length = 0;
    for (DecodedName rest{name}; !rest.at_end() && length < sizeof decoded;)
        decoded[length++] = ascii_lower(static_cast<char>(rest.next()));
    const std::string_view lower(decoded, length);
    for (const std::string_view pattern : tracking_parameters)
        if (pattern.ends_with('*') ? lower.starts_with(pattern.substr(0, pattern.size() - 1))
                                   : lower == pattern)
            return true;
    return false;
}

// The parameters of a query, but for the empty ones and, if asked, those for tracking.
std::span<UrlParameter> parse_query(std::string_view query, bool strip_tracking,
                                    UrlParameter* parameters) noexcept {
    std::size_t count = 0;
    for (std::size_t begin = 0; begin < query.size();) {
        const std::size_t end = std::min(query.find('&', begin), query.size());
        const std::string_view parameter = query.substr(begin, end - begin);
        const std::string_view name = parameter.substr(0, parameter.find('='));
        if (!parameter.empty() && !(strip_tracking && is_tracking(name)))
            parameters[count++] = {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(name.size()),
                                   static_cast<std::uint32_t>(parameter.size())};
        begin = end + 1;
    }
    return {parameters, count};
}

void sort_by_name(std::string_view query, std::span<UrlParameter> parameters) noexcept {
    const auto before = [query](const UrlParameter& a, const UrlParameter& b) {
        const int order =
            compare_names(query.substr(a.begin, a.name_length), query.substr(b.begin, b.name_length));
        return order < 0 || (order == 0 && a.begin < b.begin); // stable without the memory of stable_sort
    };
    std::sort(parameters.begin(), parameters.end(), before);
}

char* append(char* out, std::string_view bytes) noexcept {
    std::memcpy(out, bytes.data(), bytes.size());
    return out + bytes.size();
}

char* append_query(char* out, const Url& url, UrlRules rules, UrlParameter* storage) noexcept {
    const bool sort = has_rule(rules, UrlRules::sort_query),
               strip = has_rule(rules, UrlRules::strip_tracking);
    if (!url.has_query)
        return out;
    if (!sort && !strip) {
        *out++ = '?';
        return append(out, url.query);
    }
    const std::span<UrlParameter> parameters = parse_query(url.query, strip, storage);
    if (sort)
        sort_by_name(url.query, parameters);
    char delimiter = '?';
    for (const UrlParameter& parameter : parameters) {
        *out++ = delimiter;
        out = append(out, url.query.substr(parameter.begin, parameter.length));
        delimiter = '&';
    }
    return out;
}

} // namespace

UrlRules url_rule(std::string_view name) noexcept {
    struct NamedRule {
        std::string_view name;
        UrlRules rule;
    };
    static constexpr NamedRule named_rules[] = {
        {"sort_query", UrlRules::sort_query},
        {"strip_tracking", UrlRules::strip_tracking},
        {"strip_trailing_slash", UrlRules::strip_trailing_slash},
        {"unify_scheme", UrlRules::unify_scheme},
    };
    for (const NamedRule& named : named_rules)
        if (named.name == name)
            return named.rule;
    return UrlRules::none;
}

UrlError normalize_url(std::string_view input, UrlRules rules, std::span<char> storage,
                       std::string_view& key) noexcept {
    Url url;
    if (const UrlError error = canonical_url(input, storage, url); error != UrlError::none)
        return error;
    return normalize_parsed_url(url, input.size(), rules, storage, key);
}

UrlError normalize_parsed_url(const Url& url, std::size_t input_length, UrlRules rules,
                              std::span<char> storage, std::string_view& key) noexcept {
    const UrlStorage areas(storage, input_length);
    char* out = areas.key;

    // http on port 443 would become https on its own port, which is another place.
    const bool unify = has_rule(rules, UrlRules::unify_scheme) && url.port != "443";
    out = append(out, unify ? "https" : url.scheme);
    const char* const authority = url.scheme.data() + url.scheme.size(); // from "://" to the path
    out = append(out, {authority, static_cast<std::size_t>(url.path.data() - authority)});

    std::string_view path = url.path;
    if (has_rule(rules, UrlRules::strip_trailing_slash))
        while (path.size() > 1 && path.ends_with('/'))
            path.remove_suffix(1);
    out = append(out, path);
    out = append_query(out, url, rules, areas.parameters);
    if (url.has_fragment) {
        *out++ = '#';
        out = append(out, url.fragment);
    }
    const auto length = static_cast<std::size_t>(out - areas.key);
    if (length > url_max_length) // by the one byte of https
        return UrlError::too_long;
    key = {areas.key, length};
    return UrlError::none;
}

} // namespace shortener
