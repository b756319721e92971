#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>

namespace shortener {

// Text of at most `capacity` bytes that lies in the object itself: it owns nothing, so a Postgres error may
// jump over it.
template <std::size_t capacity> class BoundedText {
  public:
    // Keeps what fits; UTF-8 is not cut within a character.
    void append(std::string_view text) noexcept {
        std::size_t length = std::min(text.size(), capacity - size_);
        while (length < text.size() && length > 0 &&
               (static_cast<unsigned char>(text[length]) & 0xC0) == 0x80)
            length--;
        if (length > 0)
            std::memcpy(bytes_ + size_, text.data(), length);
        size_ += length;
    }
    void assign(std::string_view text) noexcept {
        size_ = 0;
        append(text);
    }
    bool empty() const noexcept { return size_ == 0; }
    std::string_view view() const noexcept { return {bytes_, size_}; }

  private:
    std::size_t size_ = 0;
    char bytes_[capacity];
};

} // namespace shortener
