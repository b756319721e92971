#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/siphash.h"

namespace shortener {

// Questions under way, shared by all threads: whoever asks first asks the database, whoever comes meanwhile
// waits for the same answer. A visit has a `flight()`, the text that is the same for those who ask the same.
template <typename Visit> class Flights {
  public:
    using Visits = std::vector<std::shared_ptr<Visit>>;

    explicit Flights(const SipKey& seed) {
        for (Shard& shard : shards_)
            shard.visits = Map(0, Hasher{seed});
    }

    // True for the first: it must ask, and land whatever comes of it.
    bool board(std::shared_ptr<Visit> visit) {
        const std::string_view flight = visit->flight();
        Shard& shard = shard_of(flight);
        const std::lock_guard lock(shard.mutex);
        Visits& visits = shard.visits[flight]; // a view of the first visit, which stays as long as the entry
        visits.push_back(std::move(visit));
        return visits.size() == 1;
    }

    // All who wait for the same; from here on the next is a first again.
    Visits land(std::string_view flight) {
        Shard& shard = shard_of(flight);
        const std::lock_guard lock(shard.mutex);
        const auto found = shard.visits.find(flight);
        if (found == shard.visits.end())
            return {};
        Visits visits = std::move(found->second);
        shard.visits.erase(found);
        return visits;
    }

    // Forgets who waits, when nobody will land.
    void clear() {
        for (Shard& shard : shards_) {
            const std::lock_guard lock(shard.mutex);
            shard.visits.clear();
        }
    }

  private:
    struct Hasher {
        SipKey seed;
        std::size_t operator()(std::string_view key) const noexcept { return siphash24(seed, key); }
    };
    using Map = std::unordered_map<std::string_view, Visits, Hasher>;
    struct Shard {
        std::mutex mutex;
        Map visits{0, Hasher{}};
    };

    // Only to keep threads out of each other's way; who chooses keys of one shard gains nothing.
    Shard& shard_of(std::string_view key) {
        return shards_[key.empty() ? 0 : static_cast<unsigned char>(key.back()) % shards_.size()];
    }

    std::array<Shard, 16> shards_;
};

} // namespace shortener
