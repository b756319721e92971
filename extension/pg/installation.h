#pragma once

namespace shortener {

// Raises an error that says what to do unless the tables are there, with the triggers that keep their
// promises, and in this database.
void require_install();

} // namespace shortener
