#pragma once

#include <array>
#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/siphash.h"

namespace shortener {

// Questions under way, shared by all threads: whoever asks first asks the database, whoever comes meanwhile
// waits for the same answer.
template <typename Waiter> class Flights {
  public:
    explicit Flights(const SipKey& seed) {
        for (Shard& shard : shards_)
            shard.waiting = Map(0, Hasher{seed});
    }

    // True for the first: it must ask, and land the key whatever comes of it.
    bool board(const std::string& key, Waiter waiter) {
        Shard& shard = shard_of(key);
        const std::lock_guard lock(shard.mutex);
        const auto [place, first] = shard.waiting.try_emplace(key);
        place->second.push_back(std::move(waiter));
        return first;
    }

    // All who wait for the key; from here on the next is a first again.
    std::vector<Waiter> land(const std::string& key) {
        Shard& shard = shard_of(key);
        const std::lock_guard lock(shard.mutex);
        const auto found = shard.waiting.find(key);
        if (found == shard.waiting.end())
            return {};
        std::vector<Waiter> waiters = std::move(found->second);
        shard.waiting.erase(found);
        return waiters;
    }

    // Forgets who waits, when nobody will land.
    void clear() {
        for (Shard& shard : shards_) {
            const std::lock_guard lock(shard.mutex);
            shard.waiting.clear();
        }
    }

  private:
    struct Hasher {
        SipKey seed;
        std::size_t operator()(const std::string& key) const noexcept { return siphash24(seed, key); }
    };
    using Map = std::unordered_map<std::string, std::vector<Waiter>, Hasher>;
    struct Shard {
        std::mutex mutex;
        Map waiting{0, Hasher{}};
    };

    // Only to keep threads out of each other's way; who chooses keys of one shard gains nothing.
    Shard& shard_of(std::string_view key) {
        return shards_[key.empty() ? 0 : static_cast<unsigned char>(key.back()) % shards_.size()];
    }

    std::array<Shard, 16> shards_;
};

} // namespace shortener
