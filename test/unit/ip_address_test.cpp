#include "core/ip_address.h"

#include <string>

#include <arpa/inet.h>
#include <gtest/gtest.h>

namespace shortener {
namespace {

IpAddress address_of(const char* text) {
    IpAddress address;
    const bool is_v6 = std::string_view(text).find(':') != std::string_view::npos;
    address.size = is_v6 ? 16 : 4;
    EXPECT_EQ(inet_pton(is_v6 ? AF_INET6 : AF_INET, text, address.bytes), 1) << text;
    return address;
}

std::string text_of(const IpAddress& address) {
    char text[INET6_ADDRSTRLEN];
    return inet_ntop(address.size == 16 ? AF_INET6 : AF_INET, address.bytes, text, sizeof text);
}

std::string anonymized_text(const char* text) {
    const IpAddress result = anonymized(address_of(text));
    EXPECT_EQ(anonymized(result), result) << text;
    return text_of(result);
}

TEST(IpAddress, OfIpv4TheLastOctetGoes) {
    EXPECT_EQ(anonymized_text("203.0.113.77"), "203.0.113.0");
    EXPECT_EQ(anonymized_text("255.255.255.255"), "255.255.255.0");
    EXPECT_EQ(anonymized_text("0.0.0.0"), "0.0.0.0");
}

TEST(IpAddress, OfIpv6TheLast80BitsGo) {
    EXPECT_EQ(anonymized_text("2001:db8:1:2:3:4:5:6"), "2001:db8:1::");
    EXPECT_EQ(anonymized_text("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"), "ffff:ffff:ffff::");
    EXPECT_EQ(anonymized_text("::1"), "::");
}

TEST(IpAddress, Ipv4InsideIpv6LosesItsLastOctet) {
    EXPECT_EQ(anonymized_text("::ffff:203.0.113.77"), "203.0.113.0");
    EXPECT_EQ(anonymized_text("2002:cb00:714d:1::1"), "2002:cb00:7100::"); // 6to4
    EXPECT_EQ(anonymized_text("64:ff9b::203.0.113.77"), "64:ff9b::");      // NAT64
    EXPECT_EQ(anonymized_text("::203.0.113.77"), "::");
}

TEST(IpAddress, OnlyMappedOnesAreUnmapped) {
    EXPECT_EQ(text_of(unmapped(address_of("::ffff:192.0.2.1"))), "192.0.2.1");
    EXPECT_EQ(text_of(unmapped(address_of("::fffe:192.0.2.1"))), "::fffe:c000:201");
    EXPECT_EQ(text_of(unmapped(address_of("1::ffff:192.0.2.1"))), "1::ffff:c000:201");
    EXPECT_EQ(text_of(unmapped(address_of("192.0.2.1"))), "192.0.2.1");
}

TEST(IpAddress, VisitorsDifferByAddressProgramAndSalt) {
    const SipKey salt{1, 2};
    const auto visitor = visitor_hash(salt, address_of("192.0.2.1"), "agent");
    EXPECT_EQ(visitor, visitor_hash(salt, address_of("::ffff:192.0.2.1"), "agent"));
    EXPECT_NE(visitor, visitor_hash(salt, address_of("192.0.2.2"), "agent"));
    EXPECT_NE(visitor, visitor_hash(salt, address_of("192.0.2.1"), "agent "));
    EXPECT_NE(visitor, visitor_hash(salt, IpAddress(), "agent"));
    EXPECT_NE(visitor, visitor_hash({1, 3}, address_of("192.0.2.1"), "agent"));
    EXPECT_NE(visitor_hash(salt, address_of("0.0.0.0"), ""), visitor_hash(salt, address_of("::"), ""));
}

} // namespace
} // namespace shortener
