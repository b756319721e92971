#pragma once

#include "pg/session.h"

namespace shortener {

// What the key of an identity permits now; an error if nothing any more.
Identity read_identity(const Identity& identity);

} // namespace shortener
