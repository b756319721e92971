#include "core/base62.h"

#include <cstdint>
#include <limits>
#include <random>
#include <string>

#include <gtest/gtest.h>

namespace shortener {
namespace {

constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();

std::string encode(std::int64_t value) {
    char digits[base62_max_length];
    return {digits, base62_encode(value, digits)};
}

TEST(Base62, KnownValues) {
    EXPECT_EQ(encode(0), "0");
    EXPECT_EQ(encode(9), "9");
    EXPECT_EQ(encode(10), "a");
    EXPECT_EQ(encode(35), "z");
    EXPECT_EQ(encode(36), "A");
    EXPECT_EQ(encode(61), "Z");
    EXPECT_EQ(encode(62), "10");
    EXPECT_EQ(encode(123456789012345678), "97qS0b7N2m");
    EXPECT_EQ(encode(largest), "aZl8N0y58M7");
}

void expect_inverse(std::int64_t value) {
    std::int64_t back = -1;
    ASSERT_EQ(base62_decode(encode(value), back), Base62Error::none) << value;
    ASSERT_EQ(back, value);
}

TEST(Base62, DecodeInvertsEncode) {
    expect_inverse(largest);
    std::int64_t power = 1;
    for (int k = 0; k <= 10; k++, power *= 62) {
        expect_inverse(power - 1);
        expect_inverse(power);
        expect_inverse(power + 1);
        if (k == 10)
            break;
    }
    std::mt19937_64 random(62);
    for (int i = 0; i < 1'000'000; i++)
        expect_inverse(static_cast<std::int64_t>(random() >> (1 + random() % 63)));
}

TEST(Base62, DecodeRejectsWhatEncodeCannotProduce) {
    std::int64_t value = -1;
    EXPECT_EQ(base62_decode("", value), Base62Error::empty);
    EXPECT_EQ(base62_decode("00", value), Base62Error::leading_zero);
    EXPECT_EQ(base62_decode("01", value), Base62Error::leading_zero);
    EXPECT_EQ(base62_decode("a b", value), Base62Error::foreign_character);
    EXPECT_EQ(base62_decode(std::string_view("a\0", 2), value), Base62Error::foreign_character);
    EXPECT_EQ(base62_decode("\xff", value), Base62Error::foreign_character);
    EXPECT_EQ(base62_decode("aZl8N0y58M8", value), Base62Error::out_of_range);
    EXPECT_EQ(base62_decode("ZZZZZZZZZZZ", value), Base62Error::out_of_range);
    EXPECT_EQ(base62_decode("100000000000", value), Base62Error::out_of_range);
    EXPECT_EQ(value, -1) << "a refused code leaves the value alone";
}

} // namespace
} // namespace shortener
