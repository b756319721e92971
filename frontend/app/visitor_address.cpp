#include "app/visitor_address.h"

#include <algorithm>
#include <charconv>

#include "core/ascii.h"

namespace shortener {

namespace {

using boost::asio::ip::address;

// An IPv4 address that came in through an IPv6 socket is an IPv4 address. The interface of a link-local one
// (fe80::1%eth0) means nothing elsewhere, and the database takes no such address.
address plain(const address& given) {
    if (given.is_v4())
        return given;
    if (given.to_v6().is_v4_mapped())
        return boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, given.to_v6());
    return boost::asio::ip::address_v6(given.to_v6().to_bytes());
}

std::optional<address> parse_address(std::string_view text) {
    boost::system::error_code error;
    const address parsed = boost::asio::ip::make_address(std::string(text), error);
    if (error)
        return std::nullopt;
    return plain(parsed);
}

template <typename Bytes> bool same_prefix(const Bytes& a, const Bytes& b, unsigned bits) {
    const unsigned whole = bits / 8, rest = bits % 8;
    return std::equal(a.begin(), a.begin() + whole, b.begin()) &&
           (rest == 0 || (a[whole] ^ b[whole]) >> (8 - rest) == 0);
}

} // namespace

bool Network::contains(const boost::asio::ip::address& other) const {
    if (address.is_v4() != other.is_v4())
        return false;
    if (address.is_v4())
        return same_prefix(address.to_v4().to_bytes(), other.to_v4().to_bytes(), prefix);
    return same_prefix(address.to_v6().to_bytes(), other.to_v6().to_bytes(), prefix);
}

std::optional<Network> parse_network(std::string_view text) {
    const std::size_t slash = text.find('/');
    const auto address = parse_address(text.substr(0, std::min(slash, text.size())));
    if (!address)
        return std::nullopt;
    const unsigned longest = address->is_v4() ? 32 : 128;
    Network network{*address, longest};
    if (slash != std::string_view::npos) {
        const std::string_view digits = text.substr(slash + 1);
        const auto [end, error] =
            std::from_chars(digits.data(), digits.data() + digits.size(), network.prefix);
        if (error != std::errc() || end != digits.data() + digits.size() || digits.empty() ||
            network.prefix > longest)
            return std::nullopt;
    }
    return network;
}

std::string visitor_address(std::string_view peer, std::string_view forwarded_for,
                            const std::vector<Network>& trusted) {
    const auto is_trusted = [&](const address& given) {
        return std::any_of(trusted.begin(), trusted.end(),
                           [&](const Network& network) { return network.contains(given); });
    };
    auto client = parse_address(peer);
    if (!client)
        return std::string(peer);
    while (is_trusted(*client) && !forwarded_for.empty()) {
        const std::size_t comma = forwarded_for.rfind(',');
        const std::string_view last =
            ascii_trim(comma == std::string_view::npos ? forwarded_for : forwarded_for.substr(comma + 1));
        const auto before = parse_address(last);
        if (!before)
            break;
        client = before;
        forwarded_for = comma == std::string_view::npos ? std::string_view() : forwarded_for.substr(0, comma);
    }
    return client->to_string();
}

} // namespace shortener
