#pragma once

// How the URL functions divide the storage that their caller gives.

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/url.h"
#include "core/url_host.h"

namespace shortener {

// Where a query parameter lies in its query.
struct UrlParameter {
    std::uint32_t begin;
    std::uint32_t name_length;
    std::uint32_t length;
};

struct UrlStorage {
    char* cleaned;            // the input without tabs and line breaks, if it has any
    char* href;               // the canonical URL
    char* key;                // the normalized one
    UrlParameter* parameters; // of the query

    // Percent-encoding makes three bytes of one. Beyond that a result has at most the host's slack, the
    // scheme, "://" where slashes were missing, and the path's slash. A key is at most one byte longer, by
    // https for http.
    static constexpr std::size_t href_bound(std::size_t input_length) {
        return 3 * input_length + url_host_slack + 16;
    }
    // A parameter has at least one byte, and all but one have an ampersand.
    static constexpr std::size_t parameter_bound(std::size_t input_length) { return input_length / 2 + 1; }

    static constexpr std::size_t bound(std::size_t input_length) {
        const std::size_t n = std::min(input_length, url_max_length);
        return n + 2 * href_bound(n) + parameter_bound(n) * sizeof(UrlParameter) + alignof(UrlParameter);
    }

    UrlStorage(std::span<char> storage, std::size_t input_length) {
        assert(storage.size() >= bound(input_length));
        const auto address = reinterpret_cast<std::uintptr_t>(storage.data());
        const std::size_t skipped = -address % alignof(UrlParameter);
        parameters = reinterpret_cast<UrlParameter*>(storage.data() + skipped);
        cleaned = storage.data() + skipped + parameter_bound(input_length) * sizeof(UrlParameter);
        href = cleaned + input_length;
        key = href + href_bound(input_length);
    }
};

} // namespace shortener
