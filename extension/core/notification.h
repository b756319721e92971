#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shortener {

// The notifications by which caches hear of changes: the tags of the changed codes (see siphash.h), each as
// 16 hexadecimal digits, with a space between them; or the word that means everything.

inline constexpr const char* notification_channel = "shortener";
inline constexpr const char* notification_flush = "flush";
// 256 tags are 4,351 of the 8,000 bytes that a notification may have.
inline constexpr std::size_t notification_max_tags = 256;
inline constexpr std::size_t notification_tag_length = 16;

inline void write_notification_tag(std::uint64_t tag, char (&digits)[notification_tag_length]) noexcept {
    for (std::size_t i = notification_tag_length; i-- > 0; tag >>= 4)
        digits[i] = "0123456789abcdef"[tag & 15];
}

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
            if (digit < 0 || length >= notification_tag_length)
                return flush();
            value = value << 4 | static_cast<unsigned>(digit);
        }
        if (length != notification_tag_length)
            return flush();
        tag(value);
        payload.remove_prefix(length == payload.size() ? length : length + 1);
    }
}

} // namespace shortener
