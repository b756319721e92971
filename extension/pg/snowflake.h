#pragma once

#include <cstdint>

namespace shortener {

// The next id of this server; raises a Postgres error on a standby.
std::int64_t next_snowflake();

} // namespace shortener
