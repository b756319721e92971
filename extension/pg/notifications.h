#pragma once

// What caches are told of, on the channel "shortener" at commit: tags of the codes whose answer has changed,
// or that they are to forget everything.

#include <string_view>

#include "core/code.h"

extern "C" {
#include "postgres.h"
}

namespace shortener {

class ChangedCodes {
  public:
    void add(int32 workspace_id, std::string_view code) {
        if (count_ < max_tags) {
            codes_[count_] = {workspace_id, 0, {}};
            codes_[count_].length = static_cast<int>(code.copy(codes_[count_].characters, code_max_length));
        }
        count_++;
    }
    // Between SPI_connect and SPI_finish.
    void notify() const;

  private:
    // More than this many: forget everything. 256 tags are 4,352 of the 8,000 bytes that a notification may
    // have.
    static constexpr int max_tags = 256;

    struct Code {
        int32 workspace_id;
        int length;
        char characters[code_max_length];
    };
    Code codes_[max_tags];
    int64 count_ = 0;
};

} // namespace shortener
