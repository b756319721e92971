#include "cache/cache.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace shortener {

namespace {

// What the allocator adds to a block, about.
constexpr std::size_t block_overhead = 16;

enum Part { links, unknown, part_count };

} // namespace

// One block: this, the code, the location.
struct Cache::Entry {
    Entry* next_in_bucket;
    Entry* newer;
    Entry* older;
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
    std::string_view code() { return {text(), code_length}; }
    std::string_view location() { return {text() + code_length, location_length}; }
    std::size_t bytes() const { return sizeof *this + code_length + location_length + block_overhead; }
};

struct Cache::Shard {
    struct Ring {
        Entry* newest = nullptr;
        Entry* oldest = nullptr;
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
    std::vector<Entry*> buckets = std::vector<Entry*>(64);
    std::array<Ring, part_count> rings;
    std::array<Slot, slots_per_shard> slots;
    Slot flushed;

    ~Shard() { clear(); }

    static void destroy(Entry* entry) { ::operator delete(entry); }

    std::size_t bucket_of(std::uint64_t hash) const { return hash / shard_count % buckets.size(); }

    Slot& slot_of(std::uint64_t hash) { return slots[hash >> 56]; }

    void push_newest(Entry* entry) {
        Ring& ring = rings[entry->part];
        entry->newer = nullptr;
        entry->older = ring.newest;
        (ring.newest ? ring.newest->newer : ring.oldest) = entry;
        ring.newest = entry;
    }

    void unlink_ring(Entry* entry) {
        Ring& ring = rings[entry->part];
        (entry->newer ? entry->newer->older : ring.newest) = entry->older;
        (entry->older ? entry->older->newer : ring.oldest) = entry->newer;
    }

    void remove(Entry* entry) {
        Entry** link = &buckets[bucket_of(entry->hash)];
        while (*link != entry)
            link = &(*link)->next_in_bucket;
        *link = entry->next_in_bucket;
        unlink_ring(entry);
        rings[entry->part].entries--;
        rings[entry->part].bytes -= entry->bytes();
        destroy(entry);
    }

    Entry* find(std::uint64_t hash, std::int64_t workspace_id, std::string_view code) {
        for (Entry* entry = buckets[bucket_of(hash)]; entry; entry = entry->next_in_bucket)
            if (entry->hash == hash && entry->workspace_id == workspace_id && entry->code() == code)
                return entry;
        return nullptr;
    }

    void insert(Entry* entry) {
        Ring& ring = rings[entry->part];
        if (rings[links].entries + rings[unknown].entries >= buckets.size())
            grow();
        Entry*& bucket = buckets[bucket_of(entry->hash)];
        entry->next_in_bucket = bucket;
        bucket = entry;
        push_newest(entry);
        ring.entries++;
        ring.bytes += entry->bytes();
        // Every entry gets its second chance once, so this ends.
        while (ring.bytes + ring.entries * sizeof(Entry*) > ring.limit && ring.oldest) {
            Entry* oldest = ring.oldest;
            if (oldest->asked_for) {
                oldest->asked_for = false;
                unlink_ring(oldest);
                push_newest(oldest);
            } else {
                remove(oldest);
            }
        }
    }

    void grow() {
        std::vector<Entry*> larger(buckets.size() * 2);
        std::swap(buckets, larger);
        for (Entry* chain : larger)
            while (chain) {
                Entry* entry = chain;
                chain = chain->next_in_bucket;
                Entry*& bucket = buckets[bucket_of(entry->hash)];
                entry->next_in_bucket = bucket;
                bucket = entry;
            }
    }

    void clear() {
        for (Ring& ring : rings) {
            while (ring.oldest) {
                Entry* entry = ring.oldest;
                ring.oldest = entry->newer;
                destroy(entry);
            }
            ring.newest = nullptr;
            ring.entries = ring.bytes = 0;
        }
        std::fill(buckets.begin(), buckets.end(), nullptr);
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
    Entry* entry = shard.find(key, workspace_id, code);
    if (!entry)
        return false;
    if (now >= entry->fresh_until) {
        shard.remove(entry);
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
    if (Entry* old = shard.find(key, resolution.workspace_id, code))
        shard.remove(old);

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
    shard.insert(entry);
}

void Cache::invalidate(std::uint64_t tag, Clock::time_point now) {
    const std::uint64_t key = hash(tag);
    Shard& shard = shard_of(key);
    const std::lock_guard lock(shard.mutex);
    const Ticket ticket = sequence_.fetch_add(1, std::memory_order_acq_rel) + 1;
    shard.slot_of(key) = {ticket, now};
    // Equal tags of different codes are one in 2^64: whatever is under this one goes.
    for (Entry* entry = shard.buckets[shard.bucket_of(key)]; entry;) {
        Entry* next = entry->next_in_bucket;
        if (entry->hash == key)
            shard.remove(entry);
        entry = next;
    }
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
            size.bytes += ring.bytes + ring.entries * sizeof(Entry*);
        }
    }
    return sizes;
}

} // namespace shortener
