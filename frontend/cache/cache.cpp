#include "cache/cache.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include <boost/intrusive/list.hpp>
#include <boost/intrusive/unordered_set.hpp>

namespace shortener {

namespace {

namespace intrusive = boost::intrusive;
// Hooks are not looked at again once their entry is removed.
using unchecked = intrusive::link_mode<intrusive::normal_link>;

// What the allocator adds to a block, about.
constexpr std::size_t block_overhead = 16;

enum Part { links, unknown, part_count };

} // namespace

// One block: this, the code, the location.
struct Cache::Entry : intrusive::unordered_set_base_hook<unchecked>, intrusive::list_base_hook<unchecked> {
    std::uint64_t hash;
    std::int64_t workspace_id;
    std::int64_t link_id;
    Clock::time_point expires;
    Clock::time_point fresh_until;
    std::uint32_t location_length;
    std::uint16_t status;
    std::uint8_t code_length;
    Part part : 2;
    bool asked_for : 1;

    char* text() { return reinterpret_cast<char*>(this + 1); }
    std::string_view code() const { return {reinterpret_cast<const char*>(this + 1), code_length}; }
    std::string_view location() { return {text() + code_length, location_length}; }
    std::size_t bytes() const { return sizeof *this + code_length + location_length + block_overhead; }
    static void destroy(Entry* entry) { ::operator delete(entry); }
};

struct Cache::Shard {
    // What an entry is found by.
    struct Key {
        std::uint64_t hash;
        std::int64_t workspace_id;
        std::string_view code;
    };
    // The low bits have chosen the shard.
    struct Hasher {
        template <typename Hashed> std::size_t operator()(const Hashed& hashed) const {
            return hashed.hash / shard_count;
        }
    };
    struct Equal {
        bool operator()(const Key& key, const Entry& entry) const {
            return key.hash == entry.hash && key.workspace_id == entry.workspace_id &&
                   key.code == entry.code();
        }
        bool operator()(const Entry& a, const Entry& b) const {
            return operator()(Key{a.hash, a.workspace_id, a.code()}, b);
        }
    };
    using Index =
        intrusive::unordered_set<Entry, intrusive::hash<Hasher>, intrusive::equal<Equal>,
                                 intrusive::power_2_buckets<true>, intrusive::constant_time_size<false>>;
    using Buckets = std::vector<Index::bucket_type>;

    struct Ring {
        intrusive::list<Entry, intrusive::constant_time_size<false>> order; // the newest first
        std::size_t entries = 0;
        std::size_t bytes = 0;
        std::size_t limit = 0;
    };
    // The last invalidation of any tag that falls into this slot.
    struct Slot {
        Ticket ticket = 0;
        Clock::time_point time = Clock::time_point::min();
    };

    mutable std::mutex mutex;
    Buckets buckets = Buckets(64);
    Index index{Index::bucket_traits(buckets.data(), buckets.size())};
    std::array<Ring, part_count> rings;
    std::array<Slot, slots_per_shard> slots;
    Slot flushed;

    ~Shard() { clear(); }

    Slot& slot_of(std::uint64_t hash) { return slots[hash >> 56]; }

    void remove(Entry& entry) {
        Ring& ring = rings[entry.part];
        ring.entries--;
        ring.bytes -= entry.bytes();
        index.erase(index.iterator_to(entry));
        ring.order.erase_and_dispose(ring.order.iterator_to(entry), Entry::destroy);
    }

    Entry* find(const Key& key) {
        const auto found = index.find(key, Hasher(), Equal());
        return found == index.end() ? nullptr : &*found;
    }

    // Before insert(), which cannot fail then.
    void make_room() {
        if (rings[links].entries + rings[unknown].entries >= buckets.size())
            grow();
    }

    void insert(Entry& entry) {
        Ring& ring = rings[entry.part];
        index.insert(entry);
        ring.order.push_front(entry);
        ring.entries++;
        ring.bytes += entry.bytes();
        // Every entry gets its second chance once, so this ends.
        while (ring.bytes + ring.entries * sizeof(Index::bucket_type) > ring.limit && !ring.order.empty()) {
            Entry& oldest = ring.order.back();
            if (oldest.asked_for) {
                oldest.asked_for = false;
                ring.order.splice(ring.order.begin(), ring.order, ring.order.iterator_to(oldest));
            } else {
                remove(oldest);
            }
        }
    }

    void grow() {
        Buckets larger(buckets.size() * 2);
        index.rehash(Index::bucket_traits(larger.data(), larger.size()));
        std::swap(buckets, larger);
    }

    void invalidate(std::uint64_t hash) {
        // Equal tags of different codes are one in 2^64: whatever is under this one goes.
        const std::size_t bucket = index.bucket(Key{hash, 0, {}}, Hasher());
        for (auto place = index.begin(bucket); place != index.end(bucket);) {
            Entry& entry = *place++;
            if (entry.hash == hash)
                remove(entry);
        }
    }

    void clear() {
        index.clear();
        for (Ring& ring : rings) {
            ring.order.clear_and_dispose(Entry::destroy);
            ring.entries = ring.bytes = 0;
        }
    }
};

Cache::Cache(const Limits& limits, const SipKey& seed)
    : limits_(limits), seed_(seed.k0 | 1), shards_(std::make_unique<Shard[]>(shard_count)) {
    const std::size_t each = limits.bytes / shard_count;
    for (std::size_t i = 0; i < shard_count; i++) {
        shards_[i].rings[unknown].limit = each / 8;
        shards_[i].rings[links].limit = each - each / 8;
    }
}

Cache::~Cache() = default;

void Cache::set_key(const SipKey& key) {
    if (key_low_ == key.k0 && key_high_ == key.k1)
        return;
    key_low_ = key.k0;
    key_high_ = key.k1;
    flush(Clock::now());
}

// The tag is already a good hash under a secret key; the seed makes it this process's own.
std::uint64_t Cache::hash(std::uint64_t tag) const noexcept {
    std::uint64_t mixed = (tag ^ seed_) * 0x9e3779b97f4a7c15;
    mixed ^= mixed >> 32;
    return mixed * seed_;
}

std::uint64_t Cache::tag(std::int64_t workspace_id, std::string_view code) const noexcept {
    return code_tag({key_low_.load(std::memory_order_relaxed), key_high_.load(std::memory_order_relaxed)},
                    workspace_id, code);
}

Cache::Shard& Cache::shard_of(std::uint64_t hash) const noexcept {
    return shards_[hash % shard_count];
}

bool Cache::find(std::int64_t workspace_id, std::string_view code, Clock::time_point now,
                 Resolution& resolution) {
    if (limits_.bytes == 0)
        return false;
    const std::uint64_t key = hash(tag(workspace_id, code));
    Shard& shard = shard_of(key);
    const std::lock_guard lock(shard.mutex);
    Entry* entry = shard.find({key, workspace_id, code});
    if (!entry)
        return false;
    if (now >= entry->fresh_until) {
        shard.remove(*entry);
        return false;
    }
    entry->asked_for = true;
    resolution.status = entry->status;
    resolution.location = entry->location();
    resolution.link_id = entry->link_id;
    resolution.workspace_id = workspace_id;
    resolution.expires = entry->expires;
    return true;
}

void Cache::store(std::string_view code, const Resolution& resolution, std::chrono::seconds seconds,
                  const Asked& asked) {
    const Clock::time_point now = asked.when;
    // Without a key nobody is listening yet, and nothing would take the entry away.
    const bool keyless = key_low_ == 0 && key_high_ == 0;
    if (keyless || limits_.bytes == 0 || seconds <= std::chrono::seconds::zero() || code.size() > 255)
        return;
    const std::uint64_t key = hash(tag(resolution.workspace_id, code));
    const std::size_t size = sizeof(Entry) + code.size() + resolution.location.size();
    Shard& shard = shard_of(key);
    const std::lock_guard lock(shard.mutex);

    const Shard::Slot& slot = shard.slot_of(key);
    if (slot.ticket > asked.ticket || shard.flushed.ticket > asked.ticket)
        return;
    const Clock::time_point last = std::max(slot.time, shard.flushed.time);
    if (last != Clock::time_point::min() && now < last + asked.hold_off)
        return;
    if (Entry* old = shard.find({key, resolution.workspace_id, code}))
        shard.remove(*old);

    shard.make_room();
    Entry* entry = new (::operator new(size)) Entry{};
    entry->hash = key;
    entry->workspace_id = resolution.workspace_id;
    entry->link_id = resolution.link_id;
    entry->expires = resolution.expires;
    // One more second, because `seconds` is rounded down to the expiry.
    const bool expires_first =
        !resolution.location.empty() && resolution.expires <= now + seconds + std::chrono::seconds(1);
    entry->fresh_until = std::min<Clock::time_point>(
        expires_first ? resolution.expires + longest_gone : now + seconds, now + limits_.longest);
    entry->status = static_cast<std::uint16_t>(resolution.status);
    entry->code_length = static_cast<std::uint8_t>(code.size());
    entry->location_length = static_cast<std::uint32_t>(resolution.location.size());
    entry->part = resolution.status == 404 ? unknown : links;
    entry->asked_for = false;
    std::memcpy(entry->text(), code.data(), code.size());
    std::memcpy(entry->text() + code.size(), resolution.location.data(), resolution.location.size());
    shard.insert(*entry);
}

void Cache::invalidate(std::uint64_t tag, Clock::time_point now) {
    const std::uint64_t key = hash(tag);
    Shard& shard = shard_of(key);
    const std::lock_guard lock(shard.mutex);
    const Ticket ticket = sequence_.fetch_add(1, std::memory_order_acq_rel) + 1;
    shard.slot_of(key) = {ticket, now};
    shard.invalidate(key);
}

void Cache::flush(Clock::time_point now) {
    const Ticket ticket = sequence_.fetch_add(1, std::memory_order_acq_rel) + 1;
    for (std::size_t i = 0; i < shard_count; i++) {
        const std::lock_guard lock(shards_[i].mutex);
        shards_[i].flushed = {ticket, now};
        shards_[i].clear();
    }
}

Cache::Sizes Cache::sizes() const {
    Sizes sizes;
    for (std::size_t i = 0; i < shard_count; i++) {
        const std::lock_guard lock(shards_[i].mutex);
        for (const Part part : {links, unknown}) {
            Size& size = part == links ? sizes.links : sizes.unknown;
            const Shard::Ring& ring = shards_[i].rings[part];
            size.entries += ring.entries;
            size.bytes += ring.bytes + ring.entries * sizeof(Shard::Index::bucket_type);
        }
    }
    return sizes;
}

} // namespace shortener
