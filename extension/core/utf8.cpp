#include "core/utf8.h"

#include <cstdint>
#include <cstring>

namespace shortener {

namespace {

// How many bytes at the front are ASCII, give or take a last word.
std::size_t ascii_prefix(std::string_view bytes) noexcept {
    std::size_t i = 0;
    for (std::uint64_t word; i + sizeof word <= bytes.size(); i += sizeof word) {
        std::memcpy(&word, bytes.data() + i, sizeof word);
        if (word & 0x8080808080808080u)
            break;
    }
    return i;
}

} // namespace

bool is_ascii(std::string_view bytes) noexcept {
    for (std::size_t i = ascii_prefix(bytes); i < bytes.size(); i++)
        if (bytes[i] & 0x80)
            return false;
    return true;
}

bool has_control(std::string_view bytes) noexcept {
    std::size_t i = 0;
    for (std::uint64_t word; i + sizeof word <= bytes.size(); i += sizeof word) {
        std::memcpy(&word, bytes.data() + i, sizeof word);
        // The lowest byte below 0x20 borrows where its top bit was clear.
        if ((word - 0x2020202020202020u) & ~word & 0x8080808080808080u)
            return true;
    }
    for (; i < bytes.size(); i++)
        if (static_cast<unsigned char>(bytes[i]) < 0x20)
            return true;
    return false;
}

bool is_utf8(std::string_view bytes) noexcept {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
    std::size_t i = ascii_prefix(bytes);
    while (i < bytes.size()) {
        const unsigned char lead = byte(i);
        if (lead < 0x80) {
            i++;
            continue;
        }
        // The range of the second byte keeps out overlong forms, surrogates and what is above U+10FFFF.
        std::size_t length;
        unsigned char low = 0x80, high = 0xBF;
        if (lead >= 0xC2 && lead <= 0xDF)
            length = 2;
        else if (lead >= 0xE0 && lead <= 0xEF) {
            length = 3;
            low = lead == 0xE0 ? 0xA0 : 0x80;
            high = lead == 0xED ? 0x9F : 0xBF;
        } else if (lead >= 0xF0 && lead <= 0xF4) {
            length = 4;
            low = lead == 0xF0 ? 0x90 : 0x80;
            high = lead == 0xF4 ? 0x8F : 0xBF;
        } else
            return false;
        if (bytes.size() - i < length || byte(i + 1) < low || byte(i + 1) > high)
            return false;
        for (std::size_t k = 2; k < length; k++)
            if ((byte(i + k) & 0xC0) != 0x80)
                return false;
        i += length;
    }
    return true;
}

} // namespace shortener
