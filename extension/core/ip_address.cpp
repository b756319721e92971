#include "core/ip_address.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace shortener {

IpAddress unmapped(const IpAddress& address) noexcept {
    static constexpr unsigned char prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
    if (address.size != 16 || !std::equal(std::begin(prefix), std::end(prefix), address.bytes))
        return address;
    IpAddress v4{{}, 4};
    std::copy_n(address.bytes + std::size(prefix), v4.size, v4.bytes);
    return v4;
}

IpAddress anonymized(const IpAddress& address) noexcept {
    IpAddress result = unmapped(address);
    // 2002::/16 is 6to4 (RFC 3056), whose bytes 2 to 5 are an IPv4 address. Those that other transition
    // mechanisms embed lie in the last 80 bits.
    const bool is_6to4 = result.size == 16 && result.bytes[0] == 0x20 && result.bytes[1] == 0x02;
    const std::size_t kept = result.size == 4 ? 3 : is_6to4 ? 5 : 6;
    std::fill(result.bytes + kept, std::end(result.bytes), 0);
    return result;
}

std::uint64_t visitor_hash(const SipKey& salt, const IpAddress& address,
                           std::string_view user_agent) noexcept {
    const IpAddress visitor = unmapped(address);
    const std::uint64_t program = siphash24(salt, user_agent);
    char message[1 + sizeof visitor.bytes + sizeof program];
    message[0] = static_cast<char>(visitor.size);
    std::memcpy(message + 1, visitor.bytes, sizeof visitor.bytes);
    std::memcpy(message + 1 + sizeof visitor.bytes, &program, sizeof program);
    return siphash24(salt, {message, sizeof message});
}

} // namespace shortener
