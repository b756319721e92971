#include "core/host.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace shortener {
namespace {

// The storage is exactly as large as the contract says, so that the address sanitizer sees a byte too many.
std::string key_of(std::string_view host) {
    std::vector<char> storage(host.size());
    return std::string(host_from_header(host, storage));
}

std::vector<std::string> patterns_of(std::string_view host) {
    std::vector<char> storage(host.size() + 1);
    std::vector<std::string> patterns;
    each_host_pattern(host, storage, [&](std::string_view pattern) { patterns.emplace_back(pattern); });
    return patterns;
}

using Patterns = std::vector<std::string>;

TEST(Host, KeyIsInLowerCase) {
    EXPECT_EQ(key_of("go.example"), "go.example");
    EXPECT_EQ(key_of("Go.EXAMPLE"), "go.example");
    EXPECT_EQ(key_of("AZaz09-@[`{"), "azaz09-@[`{");
}

TEST(Host, LimitsAreThoseOfDns) {
    EXPECT_FALSE(is_longer_than_dns(std::string(253, 'a')));
    EXPECT_TRUE(is_longer_than_dns(std::string(254, 'a')));
    EXPECT_FALSE(is_longer_than_dns(std::string(126, '.')));
    EXPECT_TRUE(is_longer_than_dns(std::string(127, '.')));
}

std::string twin_of(std::string_view host) {
    std::vector<char> storage(twin_max_length);
    return std::string(address_twin(host, std::span<char, twin_max_length>(storage)));
}

TEST(Host, AddressesHaveTwins) {
    EXPECT_EQ(twin_of("127.0.0.1"), "[::ffff:7f00:1]");
    EXPECT_EQ(twin_of("[::ffff:7f00:1]"), "127.0.0.1");
    EXPECT_EQ(twin_of("255.255.255.255"), "[::ffff:ffff:ffff]");
    EXPECT_EQ(twin_of("[::ffff:ffff:ffff]"), "255.255.255.255");
    EXPECT_EQ(twin_of("0.0.0.0"), "[::ffff:0:0]");
    EXPECT_EQ(twin_of("[::ffff:0:0]"), "0.0.0.0");
}

TEST(Host, OtherHostsHaveNone) {
    for (const std::string_view host :
         {"", "go.example", "1.2.3", "1.2.3.4.5", "1.2.3.256", "1.2.3.4a", "1..3.4", "[::1]", "[::ffff:1]",
          "[::ffff:0:0:1]", "[::ffff:1:2", "[::ffff:1:2]x", "12345.1.1.1"})
        EXPECT_EQ(twin_of(host), "") << host;
}

TEST(Host, KeyKeepsBytesAboveAscii) {
    EXPECT_EQ(key_of("\xc3\x84\xff.example"), "\xc3\x84\xff.example");
}

TEST(Host, KeyHasNoPort) {
    EXPECT_EQ(key_of("go.example:443"), "go.example");
    EXPECT_EQ(key_of("go.example:"), "go.example");
    EXPECT_EQ(key_of("127.0.0.1:8080"), "127.0.0.1");
}

TEST(Host, KeyHasNoTrailingDot) {
    EXPECT_EQ(key_of("go.example."), "go.example");
    EXPECT_EQ(key_of("go.example.:443"), "go.example");
}

TEST(Host, KeyOfAnAddressInBracketsKeepsItsColons) {
    EXPECT_EQ(key_of("[2001:DB8::1]"), "[2001:db8::1]");
    EXPECT_EQ(key_of("[2001:DB8::1]:8080"), "[2001:db8::1]");
}

// The domain table has no empty host and none with a bracket left open, a colon or two trailing dots.
TEST(Host, KeyOfNoHostIsInNoTable) {
    EXPECT_EQ(key_of(""), "");
    EXPECT_EQ(key_of("."), "");
    EXPECT_EQ(key_of(":80"), "");
    EXPECT_EQ(key_of("go.example.."), "go.example.");
    EXPECT_EQ(key_of("[::1"), "[::1");
    EXPECT_EQ(key_of("["), "[");
    EXPECT_EQ(key_of(std::string_view("a\0B", 3)), std::string("a\0b", 3));
}

TEST(Host, PatternsAreTheHostAndEveryDomainAbove) {
    EXPECT_EQ(patterns_of("a.b.example"), (Patterns{"a.b.example", "*.b.example", "*.example"}));
    EXPECT_EQ(patterns_of("b.example"), (Patterns{"b.example", "*.example"}));
    EXPECT_EQ(patterns_of("localhost"), (Patterns{"localhost"}));
}

TEST(Host, PatternsOfNoHostStayInTheStorage) {
    EXPECT_EQ(patterns_of(""), (Patterns{""}));
    EXPECT_EQ(patterns_of("."), (Patterns{".", "*."}));
    EXPECT_EQ(patterns_of(".a"), (Patterns{".a", "*.a"}));
    EXPECT_EQ(patterns_of("a..b"), (Patterns{"a..b", "*..b", "*.b"}));
}

} // namespace
} // namespace shortener
