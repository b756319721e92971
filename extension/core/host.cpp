#include "core/host.h"

#include <algorithm>
#include <cstdint>

#include "core/ascii.h"

namespace shortener {

std::string_view host_from_header(std::string_view host, std::span<char> storage) noexcept {
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

bool is_longer_than_dns(std::string_view host) noexcept {
    return host.size() > host_max_length ||
           static_cast<std::size_t>(std::count(host.begin(), host.end(), '.')) >= host_max_labels;
}

std::string_view address_twin(std::string_view host, std::span<char, twin_max_length> storage) noexcept {
    constexpr std::string_view mapped = "[::ffff:";
    char* out = storage.data();
    const auto append_number = [&](unsigned number, unsigned base) {
        unsigned unit = 1;
        while (number / unit >= base)
            unit *= base;
        for (; unit > 0; unit /= base)
            *out++ = "0123456789abcdef"[number / unit % base];
    };
    const auto take_number = [&](std::string_view& rest, unsigned base, unsigned& number) {
        std::size_t length = 0;
        for (number = 0; length < rest.size() && length < 4; length++) {
            const int digit = hex_value(rest[length]);
            if (digit < 0 || digit >= static_cast<int>(base))
                break;
            number = number * base + static_cast<unsigned>(digit);
        }
        rest.remove_prefix(length);
        return length > 0;
    };
    if (host.starts_with(mapped)) {
        std::string_view rest = host.substr(mapped.size());
        unsigned high, low;
        if (!take_number(rest, 16, high) || !rest.starts_with(':'))
            return {};
        rest.remove_prefix(1);
        if (!take_number(rest, 16, low) || rest != "]")
            return {};
        for (const unsigned byte : {high >> 8, high & 0xFF, low >> 8, low & 0xFF}) {
            if (out != storage.data())
                *out++ = '.';
            append_number(byte, 10);
        }
    } else {
        unsigned address = 0;
        std::string_view rest = host;
        for (int part = 0; part < 4; part++) {
            unsigned number;
            if (part > 0) {
                if (!rest.starts_with('.'))
                    return {};
                rest.remove_prefix(1);
            }
            if (!take_number(rest, 10, number) || number > 255)
                return {};
            address = address << 8 | number;
        }
        if (!rest.empty())
            return {};
        out = std::copy(mapped.begin(), mapped.end(), out);
        append_number(address >> 16, 16);
        *out++ = ':';
        append_number(address & 0xFFFF, 16);
        *out++ = ']';
    }
    return {storage.data(), static_cast<std::size_t>(out - storage.data())};
}

} // namespace shortener
