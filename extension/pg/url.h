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

// The rules of these names; an unknown name raises a Postgres error.
UrlRules url_rules_from_array(ArrayType* names);

} // namespace shortener
