#include "core/host.h"

#include "core/ascii.h"

namespace shortener {

std::string_view host_key(std::string_view host, std::span<char> storage) noexcept {
    // An IPv6 address has colons of its own, in brackets.
    const std::size_t address = host.starts_with('[') ? host.find(']') : 0;
    if (address != host.npos)
        host = host.substr(0, host.find(':', address));
    if (host.ends_with('.'))
        host.remove_suffix(1);
    for (std::size_t i = 0; i < host.size(); i++)
        storage[i] = ascii_lower(host[i]);
    return {storage.data(), host.size()};
}

} // namespace shortener
