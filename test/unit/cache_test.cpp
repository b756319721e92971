#include "cache/cache.h"
#include "cache/flights.h"
#include "cache/workspace_cache.h"
#include "core/notification.h"

#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace shortener {
namespace {

using namespace std::chrono_literals;

const Clock::time_point now = Clock::time_point(1000h);
const SipKey key{1, 2};
const SipKey seed{3, 4};

Resolution link(std::string location = "https://example.com/", std::int64_t workspace_id = 1) {
    Resolution resolution;
    resolution.status = 302;
    resolution.location = std::move(location);
    resolution.link_id = 7;
    resolution.workspace_id = workspace_id;
    return resolution;
}

Resolution nothing(int status) {
    Resolution resolution;
    resolution.status = status;
    resolution.workspace_id = 1;
    return resolution;
}

struct CacheTest : testing::Test {
    CacheTest() { cache.set_key(key); }
    bool has(std::string_view code, Clock::time_point when = now) { return cache.find(1, code, when, found); }
    void store(std::string_view code, const Resolution& resolution, std::chrono::seconds seconds = 300s) {
        cache.store(code, resolution, seconds, {cache.now_serving(), now});
    }

    Cache cache{{1 << 20, 3600s}, seed};
    Resolution found;
};

TEST_F(CacheTest, GivesBackWhatWasStored) {
    Resolution resolution = link();
    resolution.expires = now + 1h;
    store("abc", resolution);
    ASSERT_TRUE(has("abc"));
    EXPECT_EQ(found.status, 302);
    EXPECT_EQ(found.location, "https://example.com/");
    EXPECT_EQ(found.link_id, 7);
    EXPECT_EQ(found.expires, now + 1h);
    EXPECT_FALSE(has("abd"));
    EXPECT_FALSE(cache.find(2, "abc", now, found)) << "another workspace";
    store("abc", link("https://example.org/"));
    ASSERT_TRUE(has("abc"));
    EXPECT_EQ(found.location, "https://example.org/");
    EXPECT_EQ(cache.sizes().links.entries, 1u);
}

TEST_F(CacheTest, ForgetsAfterTheTimeAllowed) {
    store("abc", link(), 60s);
    EXPECT_TRUE(has("abc", now + 59s));
    EXPECT_FALSE(has("abc", now + 60s));
    EXPECT_EQ(cache.sizes().links.entries, 0u);
    store("never", link(), 0s);
    EXPECT_FALSE(has("never"));
    store("long", link(), 86400s);
    EXPECT_FALSE(has("long", now + 3600s)) << "never longer than the limit";
}

TEST_F(CacheTest, KeepsAnExpiredLinkAsGoneForAnHour) {
    Cache patient({1 << 20, 24h}, seed);
    patient.set_key(key);
    Resolution resolution = link();
    resolution.expires = now + 10s + 500ms;
    patient.store("abc", resolution, 10s, {patient.now_serving(), now});
    ASSERT_TRUE(patient.find(1, "abc", now + 9s, found));
    EXPECT_EQ(status_at(found, now + 9s), 302);
    ASSERT_TRUE(patient.find(1, "abc", now + 11s, found));
    EXPECT_EQ(status_at(found, now + 11s), 410);
    EXPECT_TRUE(patient.find(1, "abc", now + 3600s, found));
    EXPECT_FALSE(patient.find(1, "abc", now + 3611s, found));
}

TEST_F(CacheTest, NotificationTakesAwayExactlyOneLink) {
    store("abc", link());
    store("abd", link());
    cache.invalidate(code_tag(key, 1, "abc"), now);
    EXPECT_FALSE(has("abc"));
    EXPECT_TRUE(has("abd"));
    cache.flush(now);
    EXPECT_FALSE(has("abd"));
}

TEST_F(CacheTest, NotificationBeatsTheAnswerItOvertakes) {
    const Ticket before = cache.now_serving();
    cache.invalidate(code_tag(key, 1, "abc"), now);
    cache.store("abc", link(), 300s, {before, now});
    EXPECT_FALSE(has("abc")) << "asked before the change";
    cache.store("other", link(), 300s, {before, now});
    EXPECT_TRUE(has("other")) << "others are not concerned";
    store("abc", link());
    EXPECT_TRUE(has("abc")) << "asked after the change";

    const Ticket before_flush = cache.now_serving();
    cache.flush(now);
    cache.store("other", link(), 300s, {before_flush, now});
    EXPECT_FALSE(has("other"));
}

TEST_F(CacheTest, HoldsOffAfterAChangeWhenAStandbyIsRead) {
    Cache standby({1 << 20, 3600s}, seed);
    standby.set_key(key);
    standby.invalidate(code_tag(key, 1, "abc"), now);
    standby.store("abc", link(), 300s, {standby.now_serving(), now + 999ms, 1000ms});
    EXPECT_FALSE(standby.find(1, "abc", now + 999ms, found));
    standby.store("abc", link(), 300s, {standby.now_serving(), now + 1000ms, 1000ms});
    // The flush that came with the key was in real time, long after this test's.
    standby.store("other", link(), 300s, {standby.now_serving(), Clock::now() + 2s, 1000ms});
    EXPECT_TRUE(standby.find(1, "other", Clock::now() + 2s, found));
}

TEST_F(CacheTest, KeepsNothingWithoutAKey) {
    Cache keyless({1 << 20, 3600s}, seed);
    keyless.store("abc", link(), 300s, {keyless.now_serving(), now});
    EXPECT_FALSE(keyless.find(1, "abc", now, found));
    keyless.set_key(key);
    keyless.store("abc", link(), 300s, {keyless.now_serving(), now});
    EXPECT_TRUE(keyless.find(1, "abc", now, found));
    keyless.set_key({5, 6});
    EXPECT_FALSE(keyless.find(1, "abc", now, found)) << "another database";
}

TEST_F(CacheTest, StaysWithinItsBytes) {
    for (int i = 0; i < 50'000; i++)
        store("code" + std::to_string(i), link("https://example.com/" + std::to_string(i)));
    const Cache::Sizes sizes = cache.sizes();
    EXPECT_LE(sizes.links.bytes, std::size_t{1} << 20);
    EXPECT_GT(sizes.links.entries, 4'000u);
    EXPECT_LE(sizes.links.bytes / sizes.links.entries, 250u);
    EXPECT_TRUE(has("code49999"));
    EXPECT_FALSE(has("code0"));
}

TEST_F(CacheTest, KeepsRealLinksThroughAScanOfRandomCodes) {
    for (int i = 0; i < 1'000; i++)
        store("real" + std::to_string(i), link());
    for (int i = 0; i < 1'000'000; i++)
        store("random" + std::to_string(i), nothing(404), 60s);
    int kept = 0;
    for (int i = 0; i < 1'000; i++)
        kept += has("real" + std::to_string(i));
    EXPECT_EQ(kept, 1'000);
    EXPECT_LE(cache.sizes().unknown.bytes, std::size_t{1} << 17);
    EXPECT_GT(cache.sizes().unknown.entries, 500u);
}

TEST_F(CacheTest, KeepsWhatIsAskedForThroughAScanOfLinks) {
    store("popular", link());
    for (int i = 0; i < 100'000; i++) {
        store("link" + std::to_string(i), link());
        ASSERT_TRUE(has("popular")) << i;
    }
}

TEST_F(CacheTest, ThreadsMayDoEverythingAtOnce) {
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; thread++)
        threads.emplace_back([this, thread] {
            Resolution mine;
            for (int i = 0; i < 20'000; i++) {
                const std::string code = "code" + std::to_string((i * 7 + thread) % 500);
                switch (i % 8) {
                case 0: cache.store(code, link(), 300s, {cache.now_serving(), now}); break;
                case 1: cache.store(code, nothing(404), 60s, {cache.now_serving(), now}); break;
                case 2: cache.invalidate(code_tag(key, 1, code), now); break;
                case 3:
                    if (i % 1000 == 3)
                        cache.flush(now);
                    break;
                case 4: cache.sizes(); break;
                default:
                    if (cache.find(1, code, now, mine) && mine.status == 302) {
                        ASSERT_EQ(mine.location, "https://example.com/");
                    }
                }
            }
        });
    for (std::thread& thread : threads)
        thread.join();
}

TEST(WorkspaceCache, KnowsHostsAndTextsUntilAFlush) {
    WorkspaceCache workspaces(seed);
    EXPECT_FALSE(workspaces.workspace("a", now));
    workspaces.store_workspace("a", 5, {workspaces.now_serving(), now});
    EXPECT_EQ(workspaces.workspace("a", now), 5);
    EXPECT_FALSE(workspaces.workspace("a", now + WorkspaceCache::lifetime));
    workspaces.store_texts(5, {"none", std::nullopt}, {workspaces.now_serving(), now});
    EXPECT_EQ(workspaces.texts(5, now)->not_found, "none");

    const Ticket before = workspaces.now_serving();
    workspaces.flush(now);
    EXPECT_FALSE(workspaces.workspace("a", now));
    EXPECT_FALSE(workspaces.texts(5, now));
    workspaces.store_workspace("a", 5, {before, now});
    workspaces.store_texts(5, {}, {before, now});
    EXPECT_FALSE(workspaces.workspace("a", now)) << "learnt before the change";
    EXPECT_FALSE(workspaces.texts(5, now));
}

TEST(WorkspaceCache, KeepsNothingForAWhileAfterAFlushIfAStandbyAnswers) {
    WorkspaceCache workspaces(seed);
    const Clock::time_point now = Clock::now();
    workspaces.flush(now);
    workspaces.store_workspace("a", 1, {workspaces.now_serving(), now + std::chrono::milliseconds(999), 1s});
    workspaces.store_texts(1, {"nothing", "gone"},
                           {workspaces.now_serving(), now + std::chrono::milliseconds(999), 1s});
    EXPECT_FALSE(workspaces.workspace("a", now + std::chrono::milliseconds(999)));
    EXPECT_FALSE(workspaces.texts(1, now + std::chrono::milliseconds(999)));
    workspaces.store_workspace("a", 1, {workspaces.now_serving(), now + std::chrono::seconds(1), 1s});
    workspaces.store_texts(1, {"nothing", "gone"},
                           {workspaces.now_serving(), now + std::chrono::seconds(1), 1s});
    EXPECT_EQ(workspaces.workspace("a", now + std::chrono::seconds(1)), 1);
    EXPECT_TRUE(workspaces.texts(1, now + std::chrono::seconds(1)));
}

TEST(WorkspaceCache, AFloodOfHostsPushesOutItself) {
    WorkspaceCache workspaces(seed);
    workspaces.store_workspace("real", 5, {workspaces.now_serving(), now});
    std::size_t kept = 0;
    for (std::size_t i = 0; i < 3 * WorkspaceCache::max_hosts; i++) {
        workspaces.store_workspace("host" + std::to_string(i), 1, {workspaces.now_serving(), now});
        if (i % 1000 == 0) {
            ASSERT_EQ(workspaces.workspace("real", now), 5);
        }
    }
    for (std::size_t i = 0; i < 3 * WorkspaceCache::max_hosts; i++)
        kept += workspaces.workspace("host" + std::to_string(i), now).has_value();
    EXPECT_EQ(kept + 1, WorkspaceCache::max_hosts);
}

TEST(Flights, OnlyTheFirstAsks) {
    struct Visit {
        std::string text;
        std::string_view flight() const { return text; }
    };
    const auto visit = [](const char* text) { return std::make_shared<Visit>(Visit{text}); };
    Flights<Visit> flights(seed);
    const auto first = visit("a"), second = visit("a");
    EXPECT_TRUE(flights.board(first));
    EXPECT_FALSE(flights.board(second));
    EXPECT_TRUE(flights.board(visit("b")));
    EXPECT_EQ(flights.land("a"), (Flights<Visit>::Visits{first, second}));
    EXPECT_TRUE(flights.land("a").empty());
    EXPECT_TRUE(flights.board(visit("a")));
}

TEST(Notification, IsReadAsItIsWritten) {
    for (const std::uint64_t tag :
         {std::uint64_t{0}, std::uint64_t{255}, ~std::uint64_t{0}, std::uint64_t{0x0123456789abcdef}}) {
        char digits[notification_tag_length];
        write_notification_tag(tag, digits);
        std::vector<std::uint64_t> seen;
        read_notification(
            std::string_view(digits, sizeof digits), [&](std::uint64_t value) { seen.push_back(value); },
            [] { FAIL(); });
        EXPECT_EQ(seen, std::vector<std::uint64_t>{tag});
    }
}

TEST(Notification, NamesTagsOrMeansEverything) {
    const auto read = [](std::string_view payload) {
        std::string seen;
        read_notification(
            payload, [&](std::uint64_t tag) { seen += std::to_string(tag) + " "; }, [&] { seen += "flush"; });
        return seen;
    };
    EXPECT_EQ(read("0000000000000001"), "1 ");
    EXPECT_EQ(read("0000000000000001 00000000000000ff"), "1 255 ");
    EXPECT_EQ(read("flush"), "flush");
    EXPECT_EQ(read("'; DROP TABLE link"), "flush");
    EXPECT_EQ(read("0000000000000001 1"), "1 flush");
    EXPECT_EQ(read("00000000000000011"), "flush");
    EXPECT_EQ(read(""), "");
}

} // namespace
} // namespace shortener
