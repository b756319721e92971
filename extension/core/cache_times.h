#pragma once

#include <chrono>

namespace shortener {

// For how long caches may keep what a code means. A link that was disabled or has expired may come back.
inline constexpr std::chrono::seconds longest_live{300}, longest_gone{3600}, longest_unknown{60};

} // namespace shortener
