#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shortener {

// Calls `tag(value)` for every tag in the payload of a notification, or `flush()` if it says so or is not
// understood: forgetting too much is harmless.
template <typename Tag, typename Flush>
void read_notification(std::string_view payload, Tag&& tag, Flush&& flush) {
    while (!payload.empty()) {
        std::uint64_t value = 0;
        std::size_t length = 0;
        for (; length < payload.size() && payload[length] != ' '; length++) {
            const char c = payload[length];
            const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
            if (digit < 0 || length >= 16)
                return flush();
            value = value << 4 | static_cast<unsigned>(digit);
        }
        if (length != 16)
            return flush();
        tag(value);
        payload.remove_prefix(length == payload.size() ? length : length + 1);
    }
}

} // namespace shortener
