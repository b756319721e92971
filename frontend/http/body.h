#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "http/head.h"

namespace shortener {

// Follows a request's body to its end and keeps nothing of it. As strict as read_head: a body whose end two
// parsers could see in different places is refused (RFC 9112, section 7.1).
class BodyReader {
  public:
    enum class State { incomplete, complete, malformed, too_large };

    BodyReader(const Head& head, const HeadLimits& limits);

    // Reads on; the first `used` of these bytes are done with, the others are wanted again with more after
    // them.
    State read(std::string_view bytes, std::size_t& used);

  private:
    enum class Part { size, data, data_end, trailer };

    State read_line(std::string_view line);
    State read_size(std::string_view line);

    const HeadLimits& limits_;
    const bool chunked_;
    Part part_;
    std::uint64_t left_ = 0;  // bytes of the chunk or of the body
    std::uint64_t total_ = 0; // bytes of all chunks
    std::size_t trailers_ = 0;
};

} // namespace shortener
