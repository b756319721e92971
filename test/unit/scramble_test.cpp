#include "core/scramble.h"

#include <array>
#include <cmath>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/base62.h"

namespace shortener {
namespace {

const SipKey key{0x0123456789abcdef, 0xfedcba9876543210};

std::string code(const SipKey& with, std::int64_t position) {
    char digits[base62_max_length];
    return {digits, base62_encode(scramble(with, position), digits)};
}

TEST(Scramble, PermutesSmallDomainsExhaustively) {
    for (const std::uint64_t size : {1, 2, 3, 10, 61, 62, 63, 1000, 4096, 50'000}) {
        std::vector<bool> seen(size);
        for (std::uint64_t value = 0; value < size; value++) {
            const std::uint64_t image = permute(key, 7, size, value);
            ASSERT_LT(image, size);
            ASSERT_FALSE(seen[image]) << size << ": " << value;
            seen[image] = true;
            ASSERT_EQ(unpermute(key, 7, size, image), value);
        }
    }
}

void expect_inverse(std::int64_t position) {
    const std::int64_t number = scramble(key, position);
    ASSERT_GE(number, scramble_first);
    ASSERT_EQ(unscramble(key, number), position);
}

TEST(Scramble, HasAnInverseOnTheWholeRange) {
    std::mt19937_64 random(1);
    for (int i = 0; i < 200'000; i++)
        expect_inverse(static_cast<std::int64_t>(random() >> (1 + random() % 63)) % scramble_count);
    expect_inverse(scramble_count - 1);
}

TEST(Scramble, UsesUpEachLengthBeforeTheNext) {
    std::int64_t power = scramble_first * 62; // 62^7
    std::int64_t exhausted = 0;
    for (std::size_t digits = 7; digits <= 10; digits++, power *= 62) {
        const std::int64_t first = exhausted;
        exhausted = power - scramble_first;
        EXPECT_EQ(code(key, first).size(), digits);
        EXPECT_EQ(code(key, exhausted - 1).size(), digits);
        EXPECT_EQ(code(key, exhausted).size(), digits + 1);
        expect_inverse(exhausted - 1);
        expect_inverse(exhausted);
        if (digits == 10)
            break;
    }
}

// Neighbours must agree in a position as often as random codes do: 1/62 of the time (1/61 in the first).
TEST(Scramble, NeighboursDifferLikeRandomCodes) {
    constexpr int count = 200'000;
    std::array<int, 7> equal{};
    std::string before = code(key, 0);
    for (int i = 1; i <= count; i++) {
        const std::string now = code(key, i);
        for (std::size_t position = 0; position < equal.size(); position++)
            equal[position] += before[position] == now[position];
        before = now;
    }
    for (std::size_t position = 0; position < equal.size(); position++) {
        const double p = position == 0 ? 1.0 / 61 : 1.0 / 62;
        const double sigma = std::sqrt(count * p * (1 - p));
        EXPECT_NEAR(equal[position], count * p, 5 * sigma) << "position " << position;
    }
}

TEST(Scramble, EachDigitIsUniformInEachPosition) {
    constexpr int count = 310'000;
    std::array<std::array<int, 128>, 7> seen{};
    for (int i = 0; i < count; i++) {
        const std::string digits = code(key, i);
        for (std::size_t position = 0; position < seen.size(); position++)
            seen[position][static_cast<unsigned char>(digits[position])]++;
    }
    for (std::size_t position = 0; position < seen.size(); position++) {
        const int digits = position == 0 ? 61 : 62;
        const double expected = double{count} / digits;
        double chi_squared = 0;
        int different = 0;
        for (const int n : seen[position])
            if (n > 0) {
                different++;
                chi_squared += (n - expected) * (n - expected) / expected;
            }
        EXPECT_EQ(different, digits);
        // mean digits − 1, standard deviation sqrt(2 (digits − 1)): five of them above the mean
        EXPECT_LT(chi_squared, digits - 1 + 5 * std::sqrt(2.0 * (digits - 1))) << "position " << position;
    }
}

TEST(Scramble, EveryBitOfTheKeyMatters) {
    std::set<std::int64_t> images{scramble(key, 12345)};
    for (int bit = 0; bit < 64; bit++) {
        images.insert(scramble({key.k0 ^ std::uint64_t{1} << bit, key.k1}, 12345));
        images.insert(scramble({key.k0, key.k1 ^ std::uint64_t{1} << bit}, 12345));
    }
    EXPECT_EQ(images.size(), 129u);
}

} // namespace
} // namespace shortener
