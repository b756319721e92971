#pragma once

#include <string_view>

namespace shortener {

enum class Place { link, robots, favicon, nowhere };

struct Route {
    Place place = Place::nowhere;
    std::string_view code; // of a link
};

// Where a request target in origin form leads. The query does not count; one slash after a code does not
// either.
Route route(std::string_view target) noexcept;

} // namespace shortener
