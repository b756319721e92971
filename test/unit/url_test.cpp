#include "core/url.h"

#include <memory>
#include <string>

#include <gtest/gtest.h>

namespace shortener {
namespace {

std::string reason(UrlError error) {
    static constexpr const char* names[] = {
        "none",
        "too_long",
        "invalid_utf8",
        "empty",
        "missing_scheme",
        "unsupported_scheme",
        "missing_host",
        "forbidden_host_character",
        "invalid_host_encoding",
        "invalid_idna",
        "idna_too_long",
        "invalid_ipv4",
        "invalid_ipv6",
        "invalid_port",
        "port_out_of_range",
        "idna_failed",
    };
    return names[static_cast<int>(error)];
}

// Storage of exactly the size that url_bound asks for, so that the sanitizer sees a byte too many.
struct Storage {
    explicit Storage(std::size_t input_length)
        : size(url_bound(input_length)), bytes(std::make_unique<char[]>(size)) {}
    std::span<char> span() { return {bytes.get(), size}; }
    std::size_t size;
    std::unique_ptr<char[]> bytes;
};

// The href, or the reason in angle brackets.
std::string canonical(std::string_view input) {
    Storage storage(input.size());
    Url url;
    const UrlError error = canonical_url(input, storage.span(), url);
    return error == UrlError::none ? std::string(url.href) : "<" + reason(error) + ">";
}

std::string normalized(std::string_view input, UrlRules rules = UrlRules::all) {
    Storage storage(input.size());
    std::string_view key;
    const UrlError error = normalize_url(input, rules, storage.span(), key);
    return error == UrlError::none ? std::string(key) : "<" + reason(error) + ">";
}

TEST(Url, WhatPeoplePaste) {
    EXPECT_EQ(canonical("https://example.com"), "https://example.com/");
    EXPECT_EQ(canonical("  \x01HTTPS://EXAMPLE.com/Path \n"), "https://example.com/Path");
    EXPECT_EQ(canonical("ht\ttps://exa\r\nmple.com/a\nb"), "https://example.com/ab");
    EXPECT_EQ(canonical("https:\\\\example.com\\a\\b?c\\d#e\\f"), "https://example.com/a/b?c\\d#e\\f");
    EXPECT_EQ(canonical("https:example.com"), "https://example.com/");
    EXPECT_EQ(canonical("https:/example.com"), "https://example.com/");
    EXPECT_EQ(canonical("https://///\\/example.com"), "https://example.com/");
    EXPECT_EQ(canonical(std::string_view("http://h/a\0b", 12)), "http://h/a%00b");
}

TEST(Url, Ports) {
    EXPECT_EQ(canonical("http://h:80/"), "http://h/");
    EXPECT_EQ(canonical("https://h:443"), "https://h/");
    EXPECT_EQ(canonical("https://h:80"), "https://h:80/");
    EXPECT_EQ(canonical("http://h:0"), "http://h:0/");
    EXPECT_EQ(canonical("http://h:00008080/"), "http://h:8080/");
    EXPECT_EQ(canonical("http://h:65535"), "http://h:65535/");
    EXPECT_EQ(canonical("http://h:"), "http://h/");
    EXPECT_EQ(canonical("http://h:65536"), "<port_out_of_range>");
    EXPECT_EQ(canonical("http://h:99999999999999999999"), "<port_out_of_range>");
    EXPECT_EQ(canonical("http://h:8a"), "<invalid_port>");
    EXPECT_EQ(canonical("http://h:-1"), "<invalid_port>");
    EXPECT_EQ(canonical("http://h:80:80"), "<invalid_port>");
}

TEST(Url, Credentials) {
    EXPECT_EQ(canonical("http://user:pass@h"), "http://user:pass@h/");
    EXPECT_EQ(canonical("http://@h"), "http://h/");
    EXPECT_EQ(canonical("http://:@h"), "http://h/");
    EXPECT_EQ(canonical("http://u:@h"), "http://u@h/");
    EXPECT_EQ(canonical("http://:p@h"), "http://:p@h/");
    EXPECT_EQ(canonical("http://a@b@h"), "http://a%40b@h/");
    EXPECT_EQ(canonical("http://a:b:c;d@h"), "http://a:b%3Ac%3Bd@h/");
    EXPECT_EQ(canonical("https://good@evil"), "https://good@evil/");
    EXPECT_EQ(canonical("http://evil\\@good"), "http://evil/@good");
}

TEST(Url, CredentialsCanBeFoundInAnyText) {
    const auto found = [](std::string_view text) { return std::string(find_credentials(text)); };
    EXPECT_EQ(found("https://me:secret@a.example/"), "me:secret");
    EXPECT_EQ(found("https:\\\\me:secret@a"), "me:secret");
    EXPECT_EQ(found("ht\ntps://\n me:secret@a"), "me:secret");
    EXPECT_EQ(found("https:me:se@cret@a?@"), "me:se@cret");
    EXPECT_EQ(found("https://me:sec/ret@a/"), "me:sec/ret");
    EXPECT_EQ(found("//me:secret@a"), "me:secret");
    EXPECT_EQ(found("https://me@a/"), "");
    EXPECT_EQ(found("https://a.example:443/@me:x"), "");
    EXPECT_EQ(found("https://a.example/@me"), "");
    EXPECT_EQ(found("@"), "");
    EXPECT_EQ(found(""), "");
}

TEST(Url, Paths) {
    EXPECT_EQ(canonical("http://h/a/./b/../c"), "http://h/a/c");
    EXPECT_EQ(canonical("http://h/a/%2e/b/%2E%2e/c"), "http://h/a/c");
    EXPECT_EQ(canonical("http://h/.%2e/../.."), "http://h/");
    EXPECT_EQ(canonical("http://h/a/.."), "http://h/");
    EXPECT_EQ(canonical("http://h/a/."), "http://h/a/");
    EXPECT_EQ(canonical("http://h/a//../b"), "http://h/a/b");
    EXPECT_EQ(canonical("http://h//a//"), "http://h//a//");
    EXPECT_EQ(canonical("http://h/.../.a/a."), "http://h/.../.a/a.");
    EXPECT_EQ(canonical("http://h/ \"<>`{}^|'~%zz%41é"), "http://h/%20%22%3C%3E%60%7B%7D%5E|'~%zz%41%C3%A9");
}

TEST(Url, QueriesAndFragments) {
    EXPECT_EQ(canonical("http://h?"), "http://h/?");
    EXPECT_EQ(canonical("http://h#"), "http://h/#");
    EXPECT_EQ(canonical("http://h?#"), "http://h/?#");
    EXPECT_EQ(canonical("http://h?a b'\"<>`{}^|\\é"), "http://h/?a%20b%27%22%3C%3E`{}^|\\%C3%A9");
    EXPECT_EQ(canonical("http://h#a b'\"<>`{}^|#?é"), "http://h/#a%20b'%22%3C%3E%60{}^|#?%C3%A9");
    EXPECT_EQ(canonical("http://h?../x"), "http://h/?../x");
}

TEST(Url, PartsAreThoseOfTheHref) {
    const std::string_view input = "HTTPS://us%65r:pa ss@EXAMPLE.com:8443/a b?c=d#e";
    Storage storage(input.size());
    Url url;
    ASSERT_EQ(canonical_url(input, storage.span(), url), UrlError::none);
    EXPECT_EQ(url.href, "https://us%65r:pa%20ss@example.com:8443/a%20b?c=d#e");
    EXPECT_EQ(url.scheme, "https");
    EXPECT_EQ(url.username, "us%65r");
    EXPECT_EQ(url.password, "pa%20ss");
    EXPECT_EQ(url.hostname, "example.com");
    EXPECT_EQ(url.port, "8443");
    EXPECT_EQ(url.path, "/a%20b");
    EXPECT_EQ(url.query, "c=d");
    EXPECT_EQ(url.fragment, "e");
    EXPECT_TRUE(url.has_credentials() && url.has_query && url.has_fragment);
}

TEST(Url, RefusesWhatIsNoAbsoluteHttpUrl) {
    EXPECT_EQ(canonical(""), "<empty>");
    EXPECT_EQ(canonical(" \n\t "), "<empty>");
    EXPECT_EQ(canonical("example.com"), "<missing_scheme>");
    EXPECT_EQ(canonical("//evil"), "<missing_scheme>");
    EXPECT_EQ(canonical("/path"), "<missing_scheme>");
    EXPECT_EQ(canonical("1http://h"), "<missing_scheme>");
    EXPECT_EQ(canonical("ht!tp://h"), "<missing_scheme>");
    EXPECT_EQ(canonical("javascript:alert(1)"), "<unsupported_scheme>");
    EXPECT_EQ(canonical("JaVa\tScript:alert(1)"), "<unsupported_scheme>");
    EXPECT_EQ(canonical("data:text/html,x"), "<unsupported_scheme>");
    EXPECT_EQ(canonical("file:///etc/passwd"), "<unsupported_scheme>");
    EXPECT_EQ(canonical("example.com:80"), "<unsupported_scheme>");
    EXPECT_EQ(canonical("httpss://h"), "<unsupported_scheme>");
    EXPECT_EQ(canonical("http:"), "<missing_host>");
    EXPECT_EQ(canonical("http://"), "<missing_host>");
    EXPECT_EQ(canonical("http://?q"), "<missing_host>");
    EXPECT_EQ(canonical("http://user@/"), "<missing_host>");
    EXPECT_EQ(canonical("http://:80/"), "<missing_host>");
}

TEST(Url, RefusesInvalidUtf8) {
    EXPECT_EQ(canonical("http://h/\xff"), "<invalid_utf8>");
    EXPECT_EQ(canonical("http://h/\xc0\xaf"), "<invalid_utf8>");
    EXPECT_EQ(canonical("http://h/\xe0\x80\xaf"), "<invalid_utf8>");
    EXPECT_EQ(canonical("http://h/\xed\xa0\x80"), "<invalid_utf8>") << "a surrogate";
    EXPECT_EQ(canonical("http://h/\xf4\x90\x80\x80"), "<invalid_utf8>") << "beyond U+10FFFF";
    EXPECT_EQ(canonical("http://h/\xe2\x82"), "<invalid_utf8>") << "cut off";
    EXPECT_EQ(canonical("http://h/\xf4\x8f\xbf\xbf"), "http://h/%F4%8F%BF%BF");
}

TEST(Url, RefusesWhatIsTooLong) {
    const std::string head = "http://h/";
    EXPECT_EQ(canonical(head + std::string(url_max_length - head.size(), ' ') + "x"), "<too_long>");
    EXPECT_EQ(canonical(std::string(1'000'000, '\xff')), "<too_long>");
    // The worst expansion there is fits the storage, which the sanitizer watches, and is refused as a result.
    EXPECT_EQ(canonical(head + std::string(url_max_length - head.size(), '"')), "<too_long>");
    const std::size_t quotes = (url_max_length - head.size()) / 3;
    EXPECT_EQ(canonical(canonical(head + std::string(quotes, '"'))).size(), head.size() + 3 * quotes);
    EXPECT_EQ(canonical(head + std::string(quotes + 1, '"')), "<too_long>");
    const std::string longest = head + std::string(url_max_length - head.size(), 'x');
    EXPECT_EQ(canonical(longest), longest);
    EXPECT_EQ(normalized(longest), "<too_long>") << "https is one byte more";
    EXPECT_EQ(normalized(longest, UrlRules::none), longest);
    std::string many = head + "?b";
    while (many.size() + 3 <= url_max_length)
        many += "&a";
    EXPECT_EQ(normalized(many).size(), many.size() + 1);
    std::string dots = head;
    while (dots.size() + 5 <= url_max_length)
        dots += "a/../";
    EXPECT_EQ(canonical(dots), head);
}

TEST(Url, ARefusalLeavesTheResultAlone) {
    Storage storage(100);
    Url url;
    url.href = "before";
    std::string_view key = "before";
    EXPECT_EQ(canonical_url("http://a b/", storage.span(), url), UrlError::forbidden_host_character);
    EXPECT_EQ(url.href, "before");
    EXPECT_EQ(normalize_url("http://a b/", UrlRules::all, storage.span(), key),
              UrlError::forbidden_host_character);
    EXPECT_EQ(key, "before");
}

TEST(UrlHost, Domains) {
    EXPECT_EQ(canonical("http://EXAMPLE.Com./"), "http://example.com./");
    EXPECT_EQ(canonical("http://a_b.-c-.d--e/"), "http://a_b.-c-.d--e/");
    EXPECT_EQ(canonical("http://%65xample%2ecom/"), "http://example.com/");
    EXPECT_EQ(canonical("http://a..b/"), "http://a..b/");
    EXPECT_EQ(canonical("http://./"), "http://./");
    EXPECT_EQ(canonical("http://" + std::string(300, 'a')), "http://" + std::string(300, 'a') + "/");
    EXPECT_EQ(canonical("http://a b/"), "<forbidden_host_character>");
    EXPECT_EQ(canonical("http://a%00b/"), "<forbidden_host_character>");
    EXPECT_EQ(canonical("http://a%2fb/"), "<forbidden_host_character>");
    EXPECT_EQ(canonical("http://a%zz/"), "<forbidden_host_character>");
    EXPECT_EQ(canonical("http://a\x7f/"), "<forbidden_host_character>");
    EXPECT_EQ(canonical("http://a[b/"), "<forbidden_host_character>");
    EXPECT_EQ(canonical("http://%ff/"), "<invalid_host_encoding>");
    EXPECT_EQ(canonical("http://%c0%af/"), "<invalid_host_encoding>");
}

TEST(UrlHost, InternationalDomains) {
    EXPECT_EQ(canonical("http://MÜNCHEN.de/"), "http://xn--mnchen-3ya.de/");
    EXPECT_EQ(canonical("http://xn--MNCHEN-3ya.DE/"), "http://xn--mnchen-3ya.de/");
    EXPECT_EQ(canonical("http://m%C3%BCnchen.de/"), "http://xn--mnchen-3ya.de/");
    EXPECT_EQ(canonical("http://faß.de/"), "http://xn--fa-hia.de/") << "non-transitional";
    EXPECT_EQ(canonical("http://FAẞ.de/"), "http://xn--fa-hia.de/");
    EXPECT_EQ(canonical("http://ｅxample．com/"), "http://example.com/");
    EXPECT_EQ(canonical("http://例え。テスト/"), "http://xn--r8jz45g.xn--zckzah/");
    EXPECT_EQ(canonical("http://аpple.com/"), "http://xn--pple-43d.com/") << "Cyrillic а";
    EXPECT_EQ(canonical("http://א.example/"), "http://xn--4db.example/");
    EXPECT_EQ(canonical("http://１２７.1/"), "http://127.0.0.1/");
    EXPECT_EQ(canonical("http://é." + std::string(300, 'a')),
              "http://xn--9ca." + std::string(300, 'a') + "/");
    EXPECT_EQ(canonical("http://xn--/"), "<invalid_idna>");
    EXPECT_EQ(canonical("http://xn--abc-/"), "<invalid_idna>");
    EXPECT_EQ(canonical("http://xn--zzzzzzzz99/"), "<invalid_idna>");
    EXPECT_EQ(canonical("http://xn--é/"), "<invalid_idna>");
    EXPECT_EQ(canonical("http://a\u200db/"), "<invalid_idna>") << "a joiner out of context";
    EXPECT_EQ(canonical("http://1א/"), "<invalid_idna>") << "the Bidi rule";
    EXPECT_EQ(canonical("http://\ufffd/"), "<invalid_idna>");
    EXPECT_EQ(canonical("http://\u00ad/"), "<missing_host>") << "a soft hyphen vanishes";
    EXPECT_EQ(canonical("http://é\uff0f/"), "<forbidden_host_character>") << "a slash in disguise";
    EXPECT_EQ(canonical("http://" + std::string(url_max_idna_length, 'a') + "é/"), "<idna_too_long>");
    std::string many;
    for (int i = 0; i < 340; i++)
        many += "界.";
    EXPECT_EQ(canonical("http://" + many), "<idna_too_long>") << "long only in Punycode";
    std::string ligatures;
    for (int i = 0; i < 60; i++)
        ligatures += "\ufdfa"; // each is mapped to 18 characters
    EXPECT_EQ(canonical("http://" + ligatures + "/"), "<idna_too_long>")
        << "a label too long only when mapped";
}

TEST(UrlHost, Ipv4InAllForms) {
    for (const char* form : {"127.0.0.1", "127.1", "0x7f.1", "0X7F000001", "2130706433", "0177.0.0.1",
                             "127.0.0.1.", "127.0x0.0.00001", "%31%32%37.1"})
        EXPECT_EQ(canonical("http://" + std::string(form)), "http://127.0.0.1/") << form;
    EXPECT_EQ(canonical("http://0127.1"), "http://87.0.0.1/");
    EXPECT_EQ(canonical("http://0x/"), "http://0.0.0.0/");
    EXPECT_EQ(canonical("http://4294967295/"), "http://255.255.255.255/");
    for (const char* form : {"4294967296", "256.1.1.1", "1.2.3.256", "1.2.3.4.5", "08", "0x1g.1", "foo.0",
                             "foo.09", "1..2", "1.2.65536", "99999999999999999999999", ".1"})
        EXPECT_EQ(canonical("http://" + std::string(form)), "<invalid_ipv4>") << form;
    EXPECT_EQ(canonical("http://1.2.3.4a/"), "http://1.2.3.4a/");
    EXPECT_EQ(canonical("http://1.."), "http://1../");
    EXPECT_EQ(canonical("http://1.0xg"), "http://1.0xg/");
}

TEST(UrlHost, Ipv6) {
    EXPECT_EQ(canonical("http://[::1]:81/"), "http://[::1]:81/");
    EXPECT_EQ(canonical("http://[::]"), "http://[::]/");
    EXPECT_EQ(canonical("http://[1::]"), "http://[1::]/");
    EXPECT_EQ(canonical("http://[::ffff:127.0.0.1]"), "http://[::ffff:7f00:1]/");
    EXPECT_EQ(canonical("http://[1:2:3:4:5:6:1.2.3.4]"), "http://[1:2:3:4:5:6:102:304]/");
    EXPECT_EQ(canonical("http://[2001:0DB8:0:0:1:0:0:1]"), "http://[2001:db8::1:0:0:1]/");
    EXPECT_EQ(canonical("http://[1:0:2:3:4:5:6:7]"), "http://[1:0:2:3:4:5:6:7]/");
    EXPECT_EQ(canonical("http://[1:0:0:2:0:0:0:3]"), "http://[1:0:0:2::3]/");
    EXPECT_EQ(canonical("http://[1:2:3:4:5:6:7::]"), "http://[1:2:3:4:5:6:7:0]/");
    EXPECT_EQ(canonical("http://[::2:3:4:5:6:7:8]"), "http://[0:2:3:4:5:6:7:8]/");
    for (const char* form : {"",
                             ":",
                             "1",
                             ":1",
                             "1:",
                             "1:2:3:4:5:6:7:8:9",
                             "::1::",
                             ":::",
                             "12345::",
                             "g::",
                             "1:2:3:4:5:6:7:8::",
                             "::1:2:3:4:5:6:7:8",
                             "1:2:3:4::5:6:7:8",
                             "fe80::1%25eth0",
                             "::1.2.3",
                             "::1.2.3.4.5",
                             "::1.2.3.04",
                             "::1.2.3.256",
                             "::1..2.3",
                             "1:2:3:4:5:6:7:1.2.3.4",
                             "::.1.2.3",
                             "::1.2.3.4:1",
                             "::1.2.3.4x",
                             "::12345.2.3.4",
                             "1:2:3:4:5:6:7"})
        EXPECT_EQ(canonical("http://[" + std::string(form) + "]/"), "<invalid_ipv6>") << form;
    EXPECT_EQ(canonical("http://[::1/"), "<invalid_ipv6>");
    EXPECT_EQ(canonical("http://[::1]x/"), "<invalid_ipv6>");
}

TEST(UrlRules, SortQuery) {
    const auto sorted = [](std::string_view url) { return normalized(url, UrlRules::sort_query); };
    EXPECT_EQ(sorted("http://h/?b=1&a=2&b=0&a=1"), "http://h/?a=2&a=1&b=1&b=0")
        << "equal names keep their order";
    EXPECT_EQ(sorted("http://h/?b&%61=1&a=0"), "http://h/?%61=1&a=0&b") << "names are compared decoded";
    EXPECT_EQ(sorted("http://h/?ab&a&=x&a%00"), "http://h/?=x&a&a%00&ab");
    EXPECT_EQ(sorted("http://h/?a+b=1&a%20b=2&a b=3"), "http://h/?a+b=1&a%20b=2&a%20b=3");
    EXPECT_EQ(sorted("http://h/?B&a"), "http://h/?B&a") << "case counts";
    EXPECT_EQ(sorted("http://h/?&&b&&a&"), "http://h/?a&b") << "empty parameters go";
    EXPECT_EQ(sorted("http://h/?#f"), "http://h/#f");
}

TEST(UrlRules, StripTracking) {
    const auto stripped = [](std::string_view url) { return normalized(url, UrlRules::strip_tracking); };
    EXPECT_EQ(stripped("http://h/?b=1&utm_source=x&a=2&fbclid=y"), "http://h/?b=1&a=2");
    EXPECT_EQ(stripped("http://h/?utm_source=x&UTM_Medium=y#f"), "http://h/#f");
    EXPECT_EQ(stripped("http://h/?%75tm%5Fsource=x&%67clid"), "http://h/") << "names are decoded";
    EXPECT_EQ(stripped("http://h/?utm_"), "http://h/");
    EXPECT_EQ(stripped("http://h/?utm=1&gclid2=1&xfbclid=1&a=utm_x"),
              "http://h/?utm=1&gclid2=1&xfbclid=1&a=utm_x");
    for (const char* name :
         {"utm_source", "fbclid",  "gclid",       "dclid",      "gbraid",    "wbraid",  "msclkid", "mc_cid",
          "mc_eid",     "igshid",  "twclid",      "ttclid",     "li_fat_id", "yclid",   "_hsenc",  "_hsmi",
          "mkt_tok",    "vero_id", "oly_anon_id", "oly_enc_id", "s_cid",     "ref_src", "gclsrc",  "srsltid"})
        EXPECT_EQ(stripped("http://h/?" + std::string(name) + "=1&q"), "http://h/?q") << name;
}

TEST(UrlRules, StripTrailingSlash) {
    const auto stripped = [](std::string_view url) {
        return normalized(url, UrlRules::strip_trailing_slash);
    };
    EXPECT_EQ(stripped("http://h/a/?q/#f/"), "http://h/a?q/#f/");
    EXPECT_EQ(stripped("http://h/a//"), "http://h/a");
    EXPECT_EQ(stripped("http://h"), "http://h/");
    EXPECT_EQ(stripped("http://h///"), "http://h/");
    EXPECT_EQ(stripped("http://h/a/."), "http://h/a");
}

TEST(UrlRules, UnifyScheme) {
    const auto unified = [](std::string_view url) { return normalized(url, UrlRules::unify_scheme); };
    EXPECT_EQ(unified("http://h/"), "https://h/");
    EXPECT_EQ(unified("https://h/"), "https://h/");
    EXPECT_EQ(unified("http://h:80/"), "https://h/");
    EXPECT_EQ(unified("http://h:8080/"), "https://h:8080/");
    EXPECT_EQ(unified("https://h:80/"), "https://h:80/") << "not the port of http://h/";
    EXPECT_EQ(unified("http://h:443/"), "http://h:443/") << "not https://h/";
}

TEST(UrlRules, AllAndNone) {
    EXPECT_EQ(normalized("HTTP://EXAMPLE.com:80/A/b/?utm_source=x&b=2&a=1#top"),
              "https://example.com/A/b?a=1&b=2#top");
    EXPECT_EQ(normalized("http://h/a/?b&a&&utm_x", UrlRules::none), "http://h/a/?b&a&&utm_x");
    EXPECT_EQ(normalized("http://u:p@h?b&a"), "https://u:p@h/?a&b");
    EXPECT_EQ(normalized("ftp://h"), "<unsupported_scheme>");
}

TEST(UrlRules, Names) {
    EXPECT_EQ(url_rule("sort_query") | url_rule("strip_tracking") | url_rule("strip_trailing_slash") |
                  url_rule("unify_scheme"),
              UrlRules::all);
    EXPECT_EQ(url_rule("Sort_query"), UrlRules::none);
    EXPECT_EQ(url_rule(""), UrlRules::none);
}

} // namespace
} // namespace shortener
