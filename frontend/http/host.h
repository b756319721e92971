#pragma once

#include <string>
#include <string_view>

namespace shortener {

// Writes the host of `host[:port]` in lower case, without port and final dot. Returns false if the text is
// not a host; an empty text is one (RFC 9110, section 7.2).
bool read_host(std::string_view text, std::string& host);

} // namespace shortener
