#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace shortener {

// The host of an HTTP Host header as the domain table has it: without port and without a trailing dot, ASCII
// letters in lower case. What is no host stays something that no table has.
// `storage` has room for `host`; the answer is a view into it.
std::string_view host_from_header(std::string_view host, std::span<char> storage) noexcept;

// Longer hosts, and those of more labels, are none that DNS can have.
inline constexpr std::size_t host_max_length = 253;
inline constexpr std::size_t host_max_labels = 127;
bool is_longer_than_dns(std::string_view host) noexcept;

// The other way to write the same address, for an IPv4 address and for one that is mapped into IPv6, as URLs
// have them: 127.0.0.1 and [::ffff:7f00:1]. Empty for any other host.
inline constexpr std::size_t twin_max_length = sizeof "[::ffff:ffff:ffff]" - 1;
std::string_view address_twin(std::string_view host, std::span<char, twin_max_length> storage) noexcept;

// Calls `visit` with each pattern by which a host may be blocked: itself, then *.domain for each domain above
// it. `storage` has room for the host and one character more.
template <typename Visit>
void each_host_pattern(std::string_view host, std::span<char> storage, Visit&& visit) {
    visit(host);
    for (std::size_t dot = host.find('.'); dot != host.npos; dot = host.find('.', dot + 1)) {
        const std::string_view rest = host.substr(dot);
        storage[0] = '*';
        rest.copy(storage.data() + 1, rest.size());
        visit(std::string_view(storage.data(), rest.size() + 1));
    }
}

} // namespace shortener
