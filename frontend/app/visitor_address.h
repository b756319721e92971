#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/ip/address.hpp>

namespace shortener {

// An IP network such as 10.0.0.0/8 or a single address.
struct Network {
    boost::asio::ip::address address;
    unsigned prefix = 0;

    bool contains(const boost::asio::ip::address& other) const;
};

std::optional<Network> parse_network(std::string_view text);

// Who the visitor is. X-Forwarded-For counts only as far as it was written by trusted proxies: from its end,
// the first address that is not one of them.
std::string visitor_address(std::string_view peer, std::string_view forwarded_for,
                            const std::vector<Network>& trusted);

} // namespace shortener
