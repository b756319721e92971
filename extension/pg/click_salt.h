#pragma once

// The salts behind the hashes of visitors, one for each day (UTC).

#include "core/siphash.h"

extern "C" {
#include "postgres.h"

#include "utils/date.h"
}

namespace shortener {

// Made by the first click of the day. Between SPI_connect and SPI_finish.
SipKey salt_of(DateADT date);

} // namespace shortener
