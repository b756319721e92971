#pragma once

namespace shortener {

// Has API keys cut to their display prefix in all that this backend logs from now on, and statements with one
// left out.
void filter_log();

} // namespace shortener
