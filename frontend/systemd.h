#pragma once

namespace shortener {

// Tells systemd of a change of state, such as "READY=1", if it started this program and wants to know
// (sd_notify(3)).
void notify_systemd(const char* state) noexcept;

} // namespace shortener
