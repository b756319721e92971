#include "core/siphash.h"

#include <string>

#include <gtest/gtest.h>

namespace shortener {
namespace {

const unsigned char paper_key[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

std::string counting_bytes(int length) {
    std::string bytes;
    for (int i = 0; i < length; i++)
        bytes.push_back(static_cast<char>(i));
    return bytes;
}

TEST(Siphash, GivesTheVectorsOfThePaper) {
    const SipKey key = SipKey::from_bytes(paper_key);
    EXPECT_EQ(siphash24(key, ""), 0x726fdb47dd0e0e31u);
    EXPECT_EQ(siphash24(key, counting_bytes(1)), 0x74f839c593dc67fdu);
    EXPECT_EQ(siphash24(key, counting_bytes(8)), 0x93f5f5799a932462u);
    EXPECT_EQ(siphash24(key, counting_bytes(15)), 0xa129ca6149be45e5u);
}

TEST(Siphash, TagIsTheHashOfWorkspaceAndCode) {
    const SipKey key = SipKey::from_bytes(paper_key);
    const std::string message = std::string("\x02\x01\0\0\0\0\0\0", 8) + "aBcDeFgHi";
    EXPECT_EQ(code_tag(key, 0x0102, "aBcDeFgHi"), siphash24(key, message));
    EXPECT_NE(code_tag(key, 0x0102, "aBcDeFgHi"), code_tag(key, 0x0103, "aBcDeFgHi"));
}

} // namespace
} // namespace shortener
