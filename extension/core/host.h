#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace shortener {

// The host of an HTTP Host header as the domain table has it: without port and without a trailing dot, ASCII
// letters in lower case. What is no host stays something that no table has.
// `storage` has room for `host`; the answer is a view into it.
std::string_view host_key(std::string_view host, std::span<char> storage) noexcept;

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
