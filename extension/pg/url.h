#pragma once

// What bindings that take URLs have in common.

#include <string_view>

#include "core/url.h"

extern "C" {
#include "postgres.h"

#include "utils/array.h"
}

namespace shortener {

// The text of the database as UTF-8, which the core wants; itself when the database has that encoding. In a
// SQL_ASCII database bytes mean nothing to Postgres and are taken for UTF-8; the core checks them. Lives as
// long as `text` or the current memory context. What the core gives back is ASCII, thus right in every
// encoding.
std::string_view utf8_from_database(std::string_view text);

// Storage for one call of the core; small URLs, as most are, do without palloc.
class UrlBuffer {
  public:
    explicit UrlBuffer(std::size_t input_length)
        : bound_(url_bound(input_length)),
          storage_(bound_ <= sizeof small_ ? small_ : static_cast<char*>(palloc(bound_))) {}
    UrlBuffer(const UrlBuffer&) = delete;
    std::span<char> span() { return {storage_, bound_}; }
    void release() const {
        if (storage_ != small_)
            pfree(storage_);
    }

  private:
    std::size_t bound_;
    char* storage_;
    char small_[16384];
};

// The rules of these names; an unknown name raises a Postgres error.
UrlRules url_rules_from_array(ArrayType* names);

} // namespace shortener
