#pragma once

// The workspaces that links are made in.

#include <string_view>

#include "core/url.h"

extern "C" {
#include "postgres.h"

#include "utils/timestamp.h"
}

namespace shortener {

enum class CodeStyle { scrambled, sequential, snowflake };

struct Workspace {
    int32 id;
    CodeStyle code_style;
    UrlRules rules;
    TimestampTz default_expiry; // DT_NOEND: never
    int16 redirect_status;
    unsigned char key[16];
};

// The workspace of that slug, without one (no data) the default one; an unknown one is an error. Its secret
// is read as its owner: who may make links need not be able to read it. Between SPI_connect and SPI_finish.
Workspace find_workspace(std::string_view slug);
Workspace find_workspace(int32 id);

} // namespace shortener
