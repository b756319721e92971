#pragma once

#include <cstdint>
#include <string_view>

namespace shortener {

// SipHash-2-4 (Aumasson and Bernstein, https://www.aumasson.jp/siphash/siphash.pdf): a keyed hash whose
// values nobody without the key can predict. It is the round function of the code scrambling, the tag of a
// cache notification and the hash of the frontend's cache.

struct SipKey {
    std::uint64_t k0 = 0;
    std::uint64_t k1 = 0;

    // Reads the 16 bytes in the order of the paper: k0 is the first eight, little-endian.
    static SipKey from_bytes(const unsigned char (&bytes)[16]) noexcept;
};

std::uint64_t siphash24(const SipKey& key, std::string_view message) noexcept;

// The tag of a code in a workspace: siphash24 over le64(workspace_id) || code.
std::uint64_t code_tag(const SipKey& key, std::int64_t workspace_id, std::string_view code) noexcept;

} // namespace shortener
