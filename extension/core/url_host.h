#pragma once

// Hosts of http and https URLs, https://url.spec.whatwg.org/#host-parsing: domains with IDNA, IPv4 addresses
// in all their number forms, IPv6 addresses.

#include <cstddef>
#include <string_view>

#include "core/url.h"

namespace shortener {

// How many bytes more than its input a host may need: the longest address, and the result of IDNA.
inline constexpr std::size_t url_host_slack = url_max_idna_length + 64;

// Reads `input`, valid UTF-8 and not empty, and writes the canonical host at `out`, which has room for
// input.size() + url_host_slack bytes and does not overlap `input`. `end` is set behind the host when the
// answer is none.
UrlError parse_url_host(std::string_view input, char* out, char*& end) noexcept;

} // namespace shortener
