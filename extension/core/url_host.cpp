#include "core/url_host.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include <unicode/uidna.h>
#include <unicode/ustring.h>

#include "core/ascii.h"
#include "core/utf8.h"

namespace shortener {

namespace {

// https://url.spec.whatwg.org/#forbidden-domain-code-point
constexpr auto forbidden_in_domain = [] {
    std::array<bool, 128> forbidden{};
    for (std::size_t c = 0; c <= 0x20; c++)
        forbidden[c] = true;
    for (const unsigned char c : std::string_view("#%/:<>?@[\\]^|\x7F"))
        forbidden[c] = true;
    return forbidden;
}();

constexpr bool has_ace_prefix(std::string_view label) noexcept {
    return label.size() >= 4 && (label[0] | 0x20) == 'x' && (label[1] | 0x20) == 'n' && label[2] == '-' &&
           label[3] == '-';
}

// Takes the first label off `domain`, with the dot behind it. `more` says whether a label follows.
std::string_view take_label(std::string_view& domain, bool& more) noexcept {
    const std::size_t dot = domain.find('.');
    const std::string_view label = domain.substr(0, dot);
    more = dot != domain.npos;
    domain.remove_prefix(more ? dot + 1 : domain.size());
    return label;
}

template <typename Predicate> bool any_label(std::string_view domain, Predicate&& predicate) noexcept {
    for (bool more = true; more;)
        if (predicate(take_label(domain, more)))
            return true;
    return false;
}

// Percent-decodes in place and says where the text ends.
char* percent_decode(char* begin, char* end) noexcept {
    char* out = begin;
    for (const char* in = begin; in < end; in++) {
        if (*in == '%' && end - in > 2 && hex_value(in[1]) >= 0 && hex_value(in[2]) >= 0) {
            *out++ = static_cast<char>(hex_value(in[1]) * 16 + hex_value(in[2]));
            in += 2;
        } else
            *out++ = *in;
    }
    return out;
}

// UTS 46 as the standard asks for it with beStrict false. One handle serves the whole process; a failure to
// open it is not kept. Threads that race leave one handle too many.
const UIDNA* idna(UErrorCode& status) noexcept {
    static constinit std::atomic<const UIDNA*> handle{nullptr};
    if (!handle.load()) {
        const UIDNA* opened = uidna_openUTS46(
            UIDNA_CHECK_BIDI | UIDNA_CHECK_CONTEXTJ | UIDNA_NONTRANSITIONAL_TO_ASCII, &status);
        if (U_SUCCESS(status))
            handle.store(opened);
    }
    return handle.load();
}

// What the standard lets pass: CheckHyphens and VerifyDnsLength are false.
constexpr std::uint32_t tolerated_idna_errors =
    UIDNA_ERROR_EMPTY_LABEL | UIDNA_ERROR_LABEL_TOO_LONG | UIDNA_ERROR_DOMAIN_NAME_TOO_LONG |
    UIDNA_ERROR_LEADING_HYPHEN | UIDNA_ERROR_TRAILING_HYPHEN | UIDNA_ERROR_HYPHEN_3_4;

// https://url.spec.whatwg.org/#concept-domain-to-ascii for what is not plain ASCII.
UrlError domain_to_ascii(std::string_view domain, char* out, char*& end) noexcept {
    if (domain.size() > url_max_idna_length)
        return UrlError::idna_too_long;
    UChar unicode[url_max_idna_length], ascii[url_max_idna_length];
    constexpr auto capacity = static_cast<std::int32_t>(url_max_idna_length);
    UErrorCode status = U_ZERO_ERROR;
    std::int32_t unicode_length = 0;
    u_strFromUTF8(unicode, capacity, &unicode_length, domain.data(), static_cast<std::int32_t>(domain.size()),
                  &status);
    if (U_FAILURE(status))
        return UrlError::invalid_host_encoding;
    // Capital sharp s became small sharp s with Unicode 15.1, and "ss" before it. The newer mapping holds,
    // whichever ICU this is.
    for (UChar& c : std::span(unicode, static_cast<std::size_t>(unicode_length)))
        if (c == 0x1E9E)
            c = 0x00DF;

    UIDNAInfo info = UIDNA_INFO_INITIALIZER;
    const UIDNA* const uts46 = idna(status); // after a failure, ICU's functions do nothing
    const std::int32_t ascii_length =
        uidna_nameToASCII(uts46, unicode, unicode_length, ascii, capacity, &info, &status);
    if (status == U_BUFFER_OVERFLOW_ERROR || status == U_INPUT_TOO_LONG_ERROR)
        return UrlError::idna_too_long;
    if (U_FAILURE(status))
        return UrlError::idna_failed;
    if ((info.errors & ~tolerated_idna_errors) != 0)
        return UrlError::invalid_idna;
    for (const UChar c : std::span(ascii, static_cast<std::size_t>(ascii_length))) {
        if (c > 0x7F)
            return UrlError::invalid_idna;
        *out++ = static_cast<char>(c);
    }
    end = out;
    return UrlError::none;
}

// Since UTS 46 revision 33 an A-label must stand for something beyond ASCII: xn-- and xn--abc- do not.
bool is_hollow_ace(std::string_view label) noexcept {
    return has_ace_prefix(label) && label.back() == '-';
}

// A number of an IPv4 address, https://url.spec.whatwg.org/#ipv4-number-parser; too large ones become 2^32.
bool parse_ipv4_number(std::string_view digits, std::uint64_t& number) noexcept {
    if (digits.empty())
        return false;
    unsigned base = 10;
    if (digits.size() >= 2 && digits[0] == '0') {
        base = ascii_lower(digits[1]) == 'x' ? 16 : 8;
        digits.remove_prefix(base == 16 ? 2 : 1);
    }
    constexpr std::uint64_t too_large = std::uint64_t{1} << 32;
    number = 0;
    for (const char c : digits) {
        const int value = hex_value(c);
        if (value < 0 || value >= static_cast<int>(base))
            return false;
        number = std::min(number * base + static_cast<unsigned>(value), too_large);
    }
    return true;
}

// https://url.spec.whatwg.org/#ends-in-a-number-checker
bool ends_in_number(std::string_view domain) noexcept {
    if (domain.ends_with('.'))
        domain.remove_suffix(1);
    const std::string_view last = domain.substr(domain.rfind('.') + 1);
    if (last.empty() || !is_ascii_digit(last[0])) // what parse_ipv4_number takes starts with a digit too
        return false;
    bool all_digits = true;
    for (const char c : last)
        all_digits &= is_ascii_digit(c);
    std::uint64_t number;
    return all_digits || parse_ipv4_number(last, number);
}

char* append_decimal_byte(char* out, unsigned byte) noexcept {
    if (byte >= 100)
        *out++ = static_cast<char>('0' + byte / 100);
    if (byte >= 10)
        *out++ = static_cast<char>('0' + byte / 10 % 10);
    *out++ = static_cast<char>('0' + byte % 10);
    return out;
}

// https://url.spec.whatwg.org/#concept-ipv4-parser. `out` may be where the domain lies.
UrlError parse_ipv4(std::string_view domain, char* out, char*& end) noexcept {
    if (domain.ends_with('.'))
        domain.remove_suffix(1);
    std::uint64_t address = 0;
    bool more = true;
    for (int parts = 1; more; parts++) {
        std::uint64_t number;
        if (parts > 4 || !parse_ipv4_number(take_label(domain, more), number))
            return UrlError::invalid_ipv4;
        // The last number fills the bytes that are left.
        const int bytes = more ? 1 : 5 - parts;
        if (number >> (8 * bytes) != 0)
            return UrlError::invalid_ipv4;
        address = address << (8 * bytes) | number;
    }
    for (int shift = 24; shift >= 0; shift -= 8) {
        out = append_decimal_byte(out, address >> shift & 0xFF);
        if (shift > 0)
            *out++ = '.';
    }
    end = out;
    return UrlError::none;
}

using Ipv6Address = std::array<std::uint16_t, 8>;

// The dotted end of an IPv6 address, into two pieces. Only here zeros may not lead.
bool parse_ipv4_in_ipv6(std::string_view text, std::uint16_t* pieces) noexcept {
    std::uint32_t address = 0;
    bool more = true;
    for (int parts = 1; more; parts++) {
        const std::string_view digits = take_label(text, more);
        if (parts > 4 || (parts < 4) != more || digits.empty() || digits.size() > 3 ||
            (digits.size() > 1 && digits[0] == '0'))
            return false;
        unsigned number = 0;
        for (const char c : digits) {
            if (!is_ascii_digit(c))
                return false;
            number = number * 10 + static_cast<unsigned>(c - '0');
        }
        if (number > 255)
            return false;
        address = address << 8 | number;
    }
    pieces[0] = static_cast<std::uint16_t>(address >> 16);
    pieces[1] = static_cast<std::uint16_t>(address);
    return true;
}

// https://url.spec.whatwg.org/#concept-ipv6-parser
bool parse_ipv6(std::string_view text, Ipv6Address& address) noexcept {
    address = {};
    std::size_t count = 0;
    std::size_t compressed = address.size() + 1; // where "::" stands, if it does
    if (text.starts_with(':')) {
        if (!text.starts_with("::"))
            return false;
        text.remove_prefix(2);
        compressed = 0;
    }
    while (!text.empty()) {
        if (count == address.size())
            return false;
        if (text[0] == ':') {
            if (compressed <= address.size())
                return false;
            text.remove_prefix(1);
            compressed = count;
            continue;
        }
        unsigned piece = 0;
        std::size_t digits = 0;
        for (; digits < 4 && digits < text.size() && hex_value(text[digits]) >= 0; digits++)
            piece = piece << 4 | static_cast<unsigned>(hex_value(text[digits]));
        if (digits < text.size() && text[digits] == '.') {
            if (digits == 0 || count + 2 > address.size() || !parse_ipv4_in_ipv6(text, &address[count]))
                return false;
            count += 2;
            break;
        }
        text.remove_prefix(digits);
        address[count++] = static_cast<std::uint16_t>(piece);
        if (text.empty())
            break;
        if (text[0] != ':' || text.size() == 1 || digits == 0)
            return false;
        text.remove_prefix(1);
    }
    if (compressed > address.size())
        return count == address.size();
    if (count == address.size()) // "::" must stand for something
        return false;
    // The pieces behind "::" move to the end.
    for (std::size_t moved = count; moved > compressed; moved--)
        std::swap(address[moved - 1], address[address.size() - 1 - (count - moved)]);
    return true;
}

// https://url.spec.whatwg.org/#concept-ipv6-serializer: "::" for the first longest run of zeros, if longer
// than one.
char* append_ipv6(char* out, const Ipv6Address& address) noexcept {
    std::size_t best = 0, best_length = 1;
    for (std::size_t i = 0; i < address.size();) {
        std::size_t length = 0;
        while (i + length < address.size() && address[i + length] == 0)
            length++;
        if (length > best_length) {
            best = i;
            best_length = length;
        }
        i += length + 1;
    }
    for (std::size_t i = 0; i < address.size(); i++) {
        if (i == best && best_length > 1) {
            *out++ = ':';
            if (i == 0)
                *out++ = ':';
            i += best_length - 1;
            continue;
        }
        bool leading = true;
        for (int shift = 12; shift >= 0; shift -= 4) {
            const unsigned digit = address[i] >> shift & 0xF;
            leading = leading && digit == 0 && shift > 0;
            if (!leading)
                *out++ = "0123456789abcdef"[digit];
        }
        if (i + 1 < address.size())
            *out++ = ':';
    }
    return out;
}

UrlError parse_bracketed(std::string_view input, char* out, char*& end) noexcept {
    Ipv6Address address;
    if (input.size() < 2 || input.back() != ']' || !parse_ipv6(input.substr(1, input.size() - 2), address))
        return UrlError::invalid_ipv6;
    *out++ = '[';
    out = append_ipv6(out, address);
    *out++ = ']';
    end = out;
    return UrlError::none;
}

} // namespace

UrlError parse_url_host(std::string_view input, char* out, char*& end) noexcept {
    if (input.front() == '[')
        return parse_bracketed(input, out, end);

    std::memcpy(out, input.data(), input.size());
    char* out_end = out + input.size();
    if (input.find('%') != input.npos)
        out_end = percent_decode(out, out_end);
    const auto domain = [&] { return std::string_view(out, static_cast<std::size_t>(out_end - out)); };

    if (is_ascii(domain()) && !any_label(domain(), has_ace_prefix)) {
        for (char* c = out; c < out_end; c++)
            *c = ascii_lower(*c);
    } else {
        if (!is_utf8(domain()))
            return UrlError::invalid_host_encoding;
        if (const UrlError error = domain_to_ascii(domain(), out, out_end); error != UrlError::none)
            return error;
        if (any_label(domain(), is_hollow_ace))
            return UrlError::invalid_idna;
    }
    if (out_end == out)
        return UrlError::missing_host;
    for (const char c : domain())
        if (forbidden_in_domain[static_cast<unsigned char>(c)])
            return UrlError::forbidden_host_character;
    if (ends_in_number(domain()))
        return parse_ipv4(domain(), out, end);
    end = out_end;
    return UrlError::none;
}

} // namespace shortener
