#pragma once

namespace shortener {

// Raises an error with the hint to call install() unless the tables are there.
void require_install();

} // namespace shortener
