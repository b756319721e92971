#pragma once

#include <chrono>

namespace shortener {

using Clock = std::chrono::steady_clock;

} // namespace shortener
