#pragma once

#include <cstddef>
#include <string_view>

namespace shortener {

inline constexpr std::size_t max_code_length = 50;

enum class Place { link, robots, favicon, nowhere };

struct Route {
    Place place = Place::nowhere;
    std::string_view code; // of a link
};

// Where a request target in origin form leads. The query does not count; one slash after a code does not either.
Route route(std::string_view target) noexcept;

} // namespace shortener
