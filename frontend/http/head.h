#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "http/message.h"

namespace shortener {

// The strict half of reading a request, before and beside the transport's own parser. Parsers forgive; a
// request that two parsers could read differently is refused here (RFC 9112, sections 2.2, 3.2, 5 and 6.3).

struct HeadLimits {
    std::size_t head_bytes = 16384;
    std::size_t target_bytes = 4096;
    std::size_t fields = 100;
    std::size_t body_bytes = 65536;
};

struct Head {
    enum class State { incomplete, complete, refused };
    State state = State::incomplete;
    int status = 0;       // of a refusal: 400, 413, 414 or 431
    std::size_t size = 0; // bytes of a complete head, with its empty line
    bool http_1_0 = false;
    bool keep_alive = true;
    bool chunked = false;
    bool expects_continue = false;
    std::uint64_t content_length = 0;
    Request request; // views into the bytes; `host` is in `host_storage`, `peer` is not set
    std::string host_storage;
    std::string forwarded_storage; // of `forwarded_for`, if it came in several lines
};

// Reads the head at the front of `bytes`, which may be incomplete and may go on with a body or more requests.
// Up to two bytes of an empty line before it are part of it. `head.host_storage` is reused.
void read_head(std::string_view bytes, const HeadLimits& limits, Head& head);

// A header or trailer field without its line end; false if the line is none.
bool split_field(std::string_view line, std::string_view& name, std::string_view& value);

} // namespace shortener
