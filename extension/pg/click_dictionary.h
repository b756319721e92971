#pragma once

// Texts that clicks have in common: user agents, hosts of referrers, places. Each is a row of a table, and a
// click has its number.

#include <functional>
#include <string_view>

#include "pg/arrays.h"

extern "C" {
#include "postgres.h"

#include "utils/date.h"
}

namespace shortener {

// Different texts, numbered from 0 as they come.
class Terms {
  public:
    explicit Terms(int capacity) : texts_(allocate<std::string_view>(capacity)) {
        while (slot_count_ < 2 * static_cast<std::size_t>(capacity))
            slot_count_ *= 2;
        slots_ = allocate<int>(static_cast<int>(slot_count_));
        std::fill_n(slots_, slot_count_, none);
    }
    int add(std::string_view text) {
        std::size_t slot = std::hash<std::string_view>()(text) & (slot_count_ - 1);
        for (; slots_[slot] != none; slot = (slot + 1) & (slot_count_ - 1))
            if (texts_[slots_[slot]] == text)
                return slots_[slot];
        texts_[count_] = text;
        return slots_[slot] = count_++;
    }
    int count() const { return count_; }
    std::string_view operator[](int i) const { return texts_[i]; }

  private:
    static constexpr int none = -1;
    std::string_view* texts_;
    int* slots_;
    std::size_t slot_count_ = 16;
    int count_ = 0;
};

// A table that gives texts numbers, in each workspace its own.
struct Dictionary;
extern Dictionary user_agents, referrers, places;

// The number of each term; that of the empty text, and of those that there is no room for, is 0.
const int32* numbers_of(Dictionary& dictionary, int32 workspace_id, const Terms& terms, DateADT day);

} // namespace shortener
