#include "core/url.h"

#include <array>
#include <cstring>

#include "core/ascii.h"
#include "core/url_host.h"
#include "core/url_storage.h"
#include "core/utf8.h"

namespace shortener {

namespace {

// The percent-encode sets of the standard, https://url.spec.whatwg.org/#percent-encoded-bytes, as bits.
enum EncodeSet : unsigned char { in_fragment = 1, in_query = 2, in_path = 4, in_userinfo = 8 };
// Beside them, what ends the parts of a URL.
enum Delimiter : unsigned char { ends_segment = 16, ends_path = 32, ends_authority = 64 };

constexpr auto character_bits = [] {
    std::array<unsigned char, 256> table{};
    const auto add = [&](std::string_view characters, unsigned bits) {
        for (const unsigned char c : characters)
            table[c] |= static_cast<unsigned char>(bits);
    };
    for (std::size_t c = 0; c < table.size(); c++)
        if (c < 0x20 || c > 0x7E)
            table[c] = in_fragment | in_query | in_path | in_userinfo;
    add(" \"<>", in_fragment | in_query | in_path | in_userinfo);
    add("`", in_fragment | in_path | in_userinfo);
    add("'", in_query); // only in the queries of special schemes, such as ours
    add("#", in_query | in_path | in_userinfo);
    add("?^{}", in_path | in_userinfo);
    add("/:;=@[\\]|", in_userinfo);
    add("/\\", ends_segment | ends_authority);
    add("?#", ends_path | ends_authority);
    return table;
}();

constexpr bool is_slash(char c) noexcept {
    return c == '/' || c == '\\';
}

// How many characters at the front of `text` have none of the bits.
std::size_t span_without(std::string_view text, unsigned bits) noexcept {
    std::size_t length = 0;
    while (length < text.size() && !(character_bits[static_cast<unsigned char>(text[length])] & bits))
        length++;
    return length;
}

char* append(char* out, std::string_view bytes) noexcept {
    std::memcpy(out, bytes.data(), bytes.size());
    return out + bytes.size();
}

char* append_encoded(char* out, std::string_view bytes, EncodeSet set) noexcept {
    for (;;) {
        const std::size_t plain = span_without(bytes, set);
        out = append(out, bytes.substr(0, plain));
        if (plain == bytes.size())
            return out;
        constexpr char digits[] = "0123456789ABCDEF";
        const auto byte = static_cast<unsigned char>(bytes[plain]);
        *out++ = '%';
        *out++ = digits[byte >> 4];
        *out++ = digits[byte & 15];
        bytes.remove_prefix(plain + 1);
    }
}

std::string_view between(const char* begin, const char* end) noexcept {
    return {begin, static_cast<std::size_t>(end - begin)};
}

// Cuts `rest` in two at `position`, or at its end.
std::string_view take_until(std::string_view& rest, std::size_t position) noexcept {
    const std::string_view head = rest.substr(0, position);
    rest.remove_prefix(head.size());
    return head;
}

// What people paste: spaces and control characters around it, tabs and line breaks inside it.
std::string_view cleaned(std::string_view input, char* copy) noexcept {
    const auto is_space_or_control = [](char c) { return static_cast<unsigned char>(c) <= ' '; };
    while (!input.empty() && is_space_or_control(input.front()))
        input.remove_prefix(1);
    while (!input.empty() && is_space_or_control(input.back()))
        input.remove_suffix(1);
    const auto is_dropped = [](char c) { return c == '\t' || c == '\n' || c == '\r'; };
    if (!has_control(input))
        return input;
    char* end = copy;
    for (const char c : input)
        if (!is_dropped(c))
            *end++ = c;
    return between(copy, end);
}

// Takes the scheme and its colon off the front of `rest`.
UrlError take_scheme(std::string_view& rest, std::string_view& scheme) noexcept {
    if (rest.empty())
        return UrlError::empty;
    std::size_t length = 0;
    const auto continues_scheme = [&](char c) {
        return is_ascii_letter(c) || (length > 0 && (is_ascii_digit(c) || c == '+' || c == '-' || c == '.'));
    };
    while (length < rest.size() && continues_scheme(rest[length]))
        length++;
    if (length == 0 || length == rest.size() || rest[length] != ':')
        return UrlError::missing_scheme;

    const auto is = [&](std::string_view name) {
        if (length != name.size())
            return false;
        for (std::size_t i = 0; i < length; i++)
            if (ascii_lower(rest[i]) != name[i])
                return false;
        return true;
    };
    if (is("https"))
        scheme = "https";
    else if (is("http"))
        scheme = "http";
    else
        return UrlError::unsupported_scheme;
    rest.remove_prefix(length + 1);
    return UrlError::none;
}

// Everything before the last @ of the authority; the first colon ends the user name.
char* append_credentials(char* out, std::string_view userinfo, Url& url) noexcept {
    const std::string_view username = take_until(userinfo, userinfo.find(':'));
    const std::string_view password = userinfo.empty() ? userinfo : userinfo.substr(1);
    if (username.empty() && password.empty())
        return out;
    char* const begin = out;
    out = append_encoded(out, username, in_userinfo);
    url.username = between(begin, out);
    if (!password.empty()) {
        *out++ = ':';
        char* const password_begin = out;
        out = append_encoded(out, password, in_userinfo);
        url.password = between(password_begin, out);
    }
    *out++ = '@';
    return out;
}

UrlError append_port(char*& out, std::string_view digits, Url& url) noexcept {
    unsigned port = 0;
    for (const char c : digits)
        if (!is_ascii_digit(c))
            return UrlError::invalid_port;
    for (const char c : digits) {
        port = port * 10 + static_cast<unsigned>(c - '0');
        if (port > 65535)
            return UrlError::port_out_of_range;
    }
    if (digits.empty() || port == (url.scheme == "http" ? 80u : 443u))
        return UrlError::none;

    *out++ = ':';
    char* const begin = out;
    unsigned unit = 1;
    while (port / unit >= 10)
        unit *= 10;
    for (; unit > 0; unit /= 10)
        *out++ = static_cast<char>('0' + port / unit % 10);
    url.port = between(begin, out);
    return UrlError::none;
}

UrlError append_authority(char*& out, std::string_view authority, Url& url) noexcept {
    if (const std::size_t at = authority.rfind('@'); at != authority.npos) {
        out = append_credentials(out, authority.substr(0, at), url);
        authority.remove_prefix(at + 1);
    }
    // The colon that starts the port is the first outside brackets.
    bool in_brackets = false;
    std::size_t host_length = 0;
    for (; host_length < authority.size(); host_length++) {
        const char c = authority[host_length];
        if (c == ':' && !in_brackets)
            break;
        if (c == '[')
            in_brackets = true;
        else if (c == ']')
            in_brackets = false;
    }
    const std::string_view host = take_until(authority, host_length);
    if (host.empty())
        return UrlError::missing_host;
    char* const begin = out;
    if (const UrlError error = parse_url_host(host, begin, out); error != UrlError::none)
        return error;
    url.hostname = between(begin, out);
    return append_port(out, authority.empty() ? authority : authority.substr(1), url);
}

// How many dots a path segment is made of, where %2e is a dot too; 0 when it is anything else.
int dot_count(std::string_view segment) noexcept {
    int dots = 0;
    while (!segment.empty()) {
        if (segment[0] == '.')
            segment.remove_prefix(1);
        else if (segment.size() >= 3 && segment[0] == '%' && segment[1] == '2' &&
                 ascii_lower(segment[2]) == 'e')
            segment.remove_prefix(3);
        else
            return 0;
        if (++dots > 2)
            return 0;
    }
    return dots;
}

// `path` is empty or starts with a slash of either kind.
char* append_path(char* out, std::string_view path) noexcept {
    char* const begin = out;
    do {
        char* const segment = out;
        *out++ = '/';
        if (!path.empty())
            path.remove_prefix(1);
        out = append_encoded(out, take_until(path, span_without(path, ends_segment)), in_path);

        const int dots = dot_count(between(segment + 1, out));
        if (dots == 0)
            continue;
        out = segment;
        // Each byte is stepped back over once at most: the whole stays linear.
        if (dots == 2 && out > begin)
            while (*--out != '/') {
            }
        if (path.empty()) // a last dot segment leaves its slash
            *out++ = '/';
    } while (!path.empty());
    return out;
}

} // namespace

std::size_t url_bound(std::size_t input_length) noexcept {
    return UrlStorage::bound(input_length);
}

UrlError canonical_url(std::string_view input, std::span<char> storage, Url& url) noexcept {
    if (input.size() > url_max_length)
        return UrlError::too_long;
    if (!is_utf8(input))
        return UrlError::invalid_utf8;

    const UrlStorage areas(storage, input.size());
    std::string_view rest = cleaned(input, areas.cleaned);
    Url parts;
    if (const UrlError error = take_scheme(rest, parts.scheme); error != UrlError::none)
        return error;

    char* const begin = areas.href;
    char* out = append(begin, parts.scheme);
    parts.scheme = between(begin, out);
    out = append(out, "://");
    while (!rest.empty() && is_slash(rest.front()))
        rest.remove_prefix(1);
    const std::string_view authority = take_until(rest, span_without(rest, ends_authority));
    if (const UrlError error = append_authority(out, authority, parts); error != UrlError::none)
        return error;

    char* part = out;
    out = append_path(out, take_until(rest, span_without(rest, ends_path)));
    parts.path = between(part, out);
    if (!rest.empty() && rest.front() == '?') {
        *out++ = '?';
        part = out;
        out = append_encoded(out, take_until(rest, rest.find('#')).substr(1), in_query);
        parts.query = between(part, out);
        parts.has_query = true;
    }
    if (!rest.empty()) {
        *out++ = '#';
        part = out;
        out = append_encoded(out, rest.substr(1), in_fragment);
        parts.fragment = between(part, out);
        parts.has_fragment = true;
    }
    parts.href = between(begin, out);
    if (parts.href.size() > url_max_length)
        return UrlError::too_long;
    url = parts;
    return UrlError::none;
}

std::string_view find_credentials(std::string_view text) noexcept {
    const std::size_t at = text.rfind('@');
    if (at == text.npos)
        return {};
    std::size_t begin = text.find_first_of(":/\\?#@");
    begin = text[begin] == ':' ? begin + 1 : 0;
    while (is_slash(text[begin]) || static_cast<unsigned char>(text[begin]) <= ' ')
        begin++;
    const std::string_view authority = text.substr(begin, text.find_first_of("/\\?#", begin) - begin);
    std::size_t end = authority.rfind('@');
    if (end == authority.npos) {
        // An unescaped slash in a password ends the authority, and what is before it looks like a port.
        const std::size_t colon = authority.find(':');
        const bool has_port =
            colon == authority.npos || authority.find_first_not_of("0123456789", colon + 1) == authority.npos;
        end = has_port ? 0 : at - begin;
    }
    const std::string_view credentials = text.substr(begin, end);
    return credentials.find(':') == credentials.npos ? std::string_view() : credentials;
}

} // namespace shortener
