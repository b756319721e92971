#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/siphash.h"

namespace shortener {

// An address of IPv4 (4 bytes) or IPv6 (16 bytes) in network order, without a netmask. Size 0 is no address.
struct IpAddress {
    unsigned char bytes[16] = {};
    std::size_t size = 0;

    bool operator==(const IpAddress&) const = default;
};

// An IPv4 address that is written as an IPv6 one (::ffff:192.0.2.1) as what it is; any other as given.
IpAddress unmapped(const IpAddress& address) noexcept;

// What may be stored of an address: IPv4 without its last octet, IPv6 without its last 80 bits. An IPv4
// address inside an IPv6 one loses its last octet too.
IpAddress anonymized(const IpAddress& address) noexcept;

// Tells visitors apart who have the same salt, and tells nobody without the salt who they are.
std::uint64_t visitor_hash(const SipKey& salt, const IpAddress& address,
                           std::string_view user_agent) noexcept;

} // namespace shortener
