#include "log.h"

#include <chrono>
#include <cstdio>
#include <ctime>
#include <string>

#include <unistd.h>

namespace shortener {

namespace {

LogLevel highest = LogLevel::info;

constexpr std::string_view names[] = {"error", "warning", "info", "debug"};

} // namespace

std::string_view name_of(LogLevel level) noexcept {
    return names[static_cast<int>(level)];
}

void set_log_level(LogLevel level) noexcept {
    highest = level;
}

bool logs(LogLevel level) noexcept {
    return level <= highest;
}

void log_line(LogLevel level, std::string_view message) {
    if (!logs(level))
        return;
    const auto now = std::chrono::system_clock::now();
    const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
    const auto milliseconds =
        std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
    std::tm utc{};
    gmtime_r(&seconds, &utc);
    char time[40];
    std::size_t length = std::strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%S", &utc);
    length += std::snprintf(time + length, sizeof time - length, ".%03dZ ", static_cast<int>(milliseconds));

    std::string line(time, length);
    line.append(name_of(level)).append(": ");
    while (!message.empty() && static_cast<unsigned char>(message.back()) <= ' ')
        message.remove_suffix(1);
    for (const char c : message)
        line.push_back(static_cast<unsigned char>(c) < ' ' || c == 0x7f ? ' ' : c);
    line.push_back('\n');
    // One write, so that lines of several threads do not mix. There is nowhere to report that it failed.
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

} // namespace shortener
