#include "core/scramble.h"

#include <bit>
#include <cstring>
#include <string_view>

namespace shortener {

namespace {

constexpr int rounds = 10;

class Feistel {
  public:
    // Balanced halves over the smallest even number of bits that holds the domain: at most four times too
    // large, so that a cycle walk takes four steps on average at the worst.
    Feistel(const SipKey& key, std::uint64_t tweak, std::uint64_t size) noexcept
        : key_(key), tweak_(tweak), size_(size), half_((std::bit_width(size - 1) + 1) / 2),
          mask_((std::uint64_t{1} << half_) - 1) {}

    std::uint64_t forward(std::uint64_t value) const noexcept {
        do {
            std::uint64_t left = value >> half_, right = value & mask_;
            for (int round = 0; round < rounds; round++) {
                const std::uint64_t next = left ^ mix(round, right);
                left = right;
                right = next;
            }
            value = left << half_ | right;
        } while (value >= size_);
        return value;
    }

    std::uint64_t backward(std::uint64_t value) const noexcept {
        do {
            std::uint64_t left = value >> half_, right = value & mask_;
            for (int round = rounds - 1; round >= 0; round--) {
                const std::uint64_t previous = right ^ mix(round, left);
                right = left;
                left = previous;
            }
            value = left << half_ | right;
        } while (value >= size_);
        return value;
    }

  private:
    std::uint64_t mix(int round, std::uint64_t half) const noexcept {
        const std::uint64_t words[2] = {tweak_ << 8 | static_cast<std::uint64_t>(round), half};
        char message[sizeof words];
        for (std::size_t i = 0; i < sizeof words; i++)
            message[i] = static_cast<char>(words[i / 8] >> (8 * (i % 8)));
        return siphash24(key_, {message, sizeof message}) & mask_;
    }

    const SipKey& key_;
    std::uint64_t tweak_;
    std::uint64_t size_;
    int half_;
    std::uint64_t mask_;
};

// The numbers with a given count of digits: `first` … `first + size − 1`.
struct Length {
    std::uint64_t digits;
    std::uint64_t first;
    std::uint64_t size;
};

// The length in which `offset` lies, when the lengths from seven digits on stand one behind the other.
// `offset` becomes the place within it.
Length length_at(std::uint64_t& offset) noexcept {
    Length length{7, scramble_first, 61 * std::uint64_t{scramble_first}};
    while (offset >= length.size) {
        offset -= length.size;
        length.digits++;
        length.first *= 62;
        length.size = length.digits < 11 ? 61 * length.first : (std::uint64_t{1} << 63) - length.first;
    }
    return length;
}

} // namespace

std::uint64_t permute(const SipKey& key, std::uint64_t tweak, std::uint64_t size,
                      std::uint64_t value) noexcept {
    return Feistel(key, tweak, size).forward(value);
}

std::uint64_t unpermute(const SipKey& key, std::uint64_t tweak, std::uint64_t size,
                        std::uint64_t value) noexcept {
    return Feistel(key, tweak, size).backward(value);
}

std::int64_t scramble(const SipKey& key, std::int64_t position) noexcept {
    auto offset = static_cast<std::uint64_t>(position);
    const Length length = length_at(offset);
    return static_cast<std::int64_t>(length.first + permute(key, length.digits, length.size, offset));
}

std::int64_t unscramble(const SipKey& key, std::int64_t number) noexcept {
    auto offset = static_cast<std::uint64_t>(number - scramble_first);
    const std::uint64_t whole = offset;
    const Length length = length_at(offset);
    return static_cast<std::int64_t>(whole - offset + unpermute(key, length.digits, length.size, offset));
}

} // namespace shortener
