#pragma once

#include <string_view>

namespace shortener {

enum class LogLevel { error, warning, info, debug };

std::string_view name_of(LogLevel level) noexcept;

// Lines above this level are not written. Set once, before threads start.
void set_log_level(LogLevel level) noexcept;

// Whether lines of this level are written: for those that cost something to make.
bool logs(LogLevel level) noexcept;

// Writes one line to standard error; line breaks and other control characters in it become spaces.
void log_line(LogLevel level, std::string_view message);

} // namespace shortener
