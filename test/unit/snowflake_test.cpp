#include "core/snowflake.h"

#include <algorithm>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace shortener {
namespace {

constexpr std::int64_t today = snowflake_epoch_ms + 90'000'000'000;

TEST(Snowflake, CarriesTimeAndNode) {
    for (const int node : {0, 1, 512, snowflake_max_node}) {
        SnowflakeClock clock{0};
        const std::int64_t id = snowflake_next(clock, today, node);
        EXPECT_EQ(snowflake_unix_ms(id), today);
        EXPECT_EQ(snowflake_node(id), node);
    }
}

TEST(Snowflake, NeverGoesBackWhenTheClockDoes) {
    SnowflakeClock clock{0};
    std::int64_t last = snowflake_next(clock, today, 5);
    for (const int step : {0, -2000, 1, -100'000, 2000, 0}) {
        const std::int64_t id = snowflake_next(clock, today + step, 5);
        EXPECT_GT(id, last);
        last = id;
    }
    EXPECT_EQ(snowflake_unix_ms(last), today + 2000);
}

TEST(Snowflake, BorrowsFromTheNextMillisecondWhenOneIsFull) {
    SnowflakeClock clock{0};
    for (int i = 0; i < 4096; i++)
        EXPECT_EQ(snowflake_unix_ms(snowflake_next(clock, today, 0)), today);
    EXPECT_EQ(snowflake_unix_ms(snowflake_next(clock, today, 0)), today + 1);
}

TEST(Snowflake, EndsInsteadOfOverflowing) {
    SnowflakeClock clock{0};
    const std::int64_t end = snowflake_epoch_ms + (std::int64_t{1} << 41);
    EXPECT_GT(snowflake_next(clock, end - 1, snowflake_max_node), 0);
    EXPECT_EQ(snowflake_next(clock, end, 0), -1);
}

TEST(Snowflake, AClockBeforeTheEpochCountsFromTheEpoch) {
    SnowflakeClock clock{0};
    EXPECT_EQ(snowflake_unix_ms(snowflake_next(clock, 0, 0)), snowflake_epoch_ms);
}

TEST(Snowflake, ThreadsNeverShareAnId) {
    constexpr int threads = 8, each = 50'000;
    SnowflakeClock clock{0};
    std::vector<std::vector<std::int64_t>> ids(threads);
    {
        std::vector<std::jthread> running;
        for (auto& mine : ids)
            running.emplace_back([&clock, &mine] {
                for (int i = 0; i < each; i++)
                    mine.push_back(snowflake_next(clock, today + i / 1000 * (i % 2 ? 1 : -1), 3));
            });
    }
    std::vector<std::int64_t> all;
    for (const auto& mine : ids) {
        EXPECT_TRUE(std::is_sorted(mine.begin(), mine.end()));
        all.insert(all.end(), mine.begin(), mine.end());
    }
    std::sort(all.begin(), all.end());
    EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end());
}

} // namespace
} // namespace shortener
