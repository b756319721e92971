#pragma once

#include <array>
#include <string_view>

namespace shortener {

enum class Place { link, robots, favicon, nowhere };

struct Route {
    Place place = Place::nowhere;
    std::string_view code; // of a link
};

// Room for a path that is shorter when decoded; a longer one leads nowhere.
using RouteStorage = std::array<char, 64>;

// Where a request target in origin form leads. The query does not count; one slash after a code does not
// either; a percent-encoded character is the same as the character. The code is a view of the target or of
// `storage`.
Route route(std::string_view target, RouteStorage& storage) noexcept;

} // namespace shortener
