#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "cache/asked.h"
#include "core/cache_times.h"
#include "core/siphash.h"
#include "resolution.h"

namespace shortener {

// What the database said about codes, bounded in bytes, shared by all threads.
//
// A notification names a link by its tag, code_tag(database key, workspace, code); the tag is therefore also
// the hash, mixed with a seed of this process so that nobody can choose codes that meet in a bucket.
// Workspace and code are compared on every look-up.
//
// Answers of "no such code" live in a part of their own, an eighth of the whole, so that a scan of random
// codes pushes out nothing but its own traces. Each part is a ring with a second chance: what was asked for
// since the hand last passed stays.
//
// A notification that overtakes the answer to a query under way must win: `now_serving()` is taken before a
// query is sent, see Asked.
class Cache {
  public:
    struct Limits {
        std::size_t bytes = std::size_t{64} << 20;
        // Nothing is kept for longer, whatever the database allows.
        std::chrono::seconds longest = longest_gone;
    };

    struct Size {
        std::size_t entries = 0;
        std::size_t bytes = 0;
    };
    struct Sizes {
        Size links;   // redirects and gone ones
        Size unknown; // no such code
    };

    Cache(const Limits& limits, const SipKey& seed);
    ~Cache();
    Cache(const Cache&) = delete;
    Cache& operator=(const Cache&) = delete;

    // The database's key for tags. Another key than before empties the cache.
    void set_key(const SipKey& key);

    Ticket now_serving() const noexcept { return sequence_.load(std::memory_order_acquire); }

    // Fills `resolution` and says whether there was a fresh entry.
    bool find(std::int64_t workspace_id, std::string_view code, Clock::time_point now,
              Resolution& resolution);

    // Keeps an answer that the database allows to keep for `seconds`. A link that expires before that stays,
    // as gone, for another hour: a revival is notified.
    void store(std::string_view code, const Resolution& resolution, std::chrono::seconds seconds,
               const Asked& asked);

    void invalidate(std::uint64_t tag, Clock::time_point now);
    void flush(Clock::time_point now);

    Sizes sizes() const;

  private:
    struct Entry;
    struct Shard;
    static constexpr std::size_t shard_count = 64;
    static constexpr std::size_t slots_per_shard = 256;

    std::uint64_t hash(std::uint64_t tag) const noexcept;
    std::uint64_t tag(std::int64_t workspace_id, std::string_view code) const noexcept;
    Shard& shard_of(std::uint64_t hash) const noexcept;

    const Limits limits_;
    const std::uint64_t seed_;
    // Two words rather than one lock: a reader that sees half of a new key computes a tag under which nothing
    // is ever found, and the flush that follows takes away what it stored.
    std::atomic<std::uint64_t> key_low_{0}, key_high_{0};
    std::atomic<Ticket> sequence_{1};
    std::unique_ptr<Shard[]> shards_;
};

} // namespace shortener
