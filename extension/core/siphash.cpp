#include "core/siphash.h"

#include <bit>
#include <cstddef>
#include <cstring>

namespace shortener {

namespace {

class SipState {
  public:
    explicit SipState(const SipKey& key) noexcept
        : v0_(key.k0 ^ 0x736f6d6570736575), v1_(key.k1 ^ 0x646f72616e646f6d),
          v2_(key.k0 ^ 0x6c7967656e657261), v3_(key.k1 ^ 0x7465646279746573) {}

    void absorb(std::uint64_t word) noexcept {
        v3_ ^= word;
        round();
        round();
        v0_ ^= word;
    }

    std::uint64_t finish() noexcept {
        v2_ ^= 0xff;
        for (int i = 0; i < 4; i++)
            round();
        return v0_ ^ v1_ ^ v2_ ^ v3_;
    }

  private:
    void round() noexcept {
        v0_ += v1_;
        v2_ += v3_;
        v1_ = std::rotl(v1_, 13) ^ v0_;
        v3_ = std::rotl(v3_, 16) ^ v2_;
        v0_ = std::rotl(v0_, 32);
        v2_ += v1_;
        v0_ += v3_;
        v1_ = std::rotl(v1_, 17) ^ v2_;
        v3_ = std::rotl(v3_, 21) ^ v0_;
        v2_ = std::rotl(v2_, 32);
    }

    std::uint64_t v0_, v1_, v2_, v3_;
};

// Little-endian whatever the machine.
std::uint64_t load_le64(const char* bytes, std::size_t count) noexcept {
    std::uint64_t word = 0;
    for (std::size_t i = 0; i < count; i++)
        word |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    return word;
}

std::uint64_t load_le64(const char* bytes) noexcept {
    if constexpr (std::endian::native != std::endian::little)
        return load_le64(bytes, 8);
    std::uint64_t word;
    std::memcpy(&word, bytes, sizeof word);
    return word;
}

// `absorbed` bytes went into the state already; the last word carries the length of the whole message.
std::uint64_t absorb_tail(SipState& state, std::string_view tail, std::size_t absorbed) noexcept {
    const std::size_t length = absorbed + tail.size();
    for (; tail.size() >= 8; tail.remove_prefix(8))
        state.absorb(load_le64(tail.data()));
    state.absorb(load_le64(tail.data(), tail.size()) | std::uint64_t{length} << 56);
    return state.finish();
}

} // namespace

SipKey SipKey::from_bytes(const unsigned char (&bytes)[16]) noexcept {
    const char* chars = reinterpret_cast<const char*>(bytes);
    return {load_le64(chars), load_le64(chars + 8)};
}

std::uint64_t siphash24(const SipKey& key, std::string_view message) noexcept {
    SipState state(key);
    return absorb_tail(state, message, 0);
}

std::uint64_t code_tag(const SipKey& key, std::int64_t workspace_id, std::string_view code) noexcept {
    SipState state(key);
    state.absorb(static_cast<std::uint64_t>(workspace_id));
    return absorb_tail(state, code, 8);
}

} // namespace shortener
