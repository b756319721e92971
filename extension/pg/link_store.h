#pragma once

// What the functions that make and change links share: the workspace they work in, the checks of a URL, and
// the numbers and codes of new links. Everything here runs between SPI_connect and SPI_finish, owns nothing
// with a destructor and raises Postgres errors.

#include <string_view>

#include "core/code.h"
#include "core/url.h"

#include "pg/errors.h"

extern "C" {
#include "postgres.h"

#include "fmgr.h"
#include "utils/timestamp.h"
}

namespace shortener {

inline constexpr std::size_t link_url_max_length = 2048;
inline constexpr std::size_t digest_size = 11;

enum class CodeStyle { scrambled, sequential, snowflake };

struct Workspace {
    int32 id;
    CodeStyle code_style;
    UrlRules rules;
    TimestampTz default_expiry; // DT_NOEND: never
    int16 redirect_status;
    bool has_refused_host; // one of the patterns it was asked with is a domain of ours or blocked
    unsigned char key[16];
};

// A URL on its way to become a link.
struct CheckedUrl {
    UrlError url_error = UrlError::none;
    LinkError link_error = LinkError::none;
    std::string_view href; // canonical
    std::string_view host; // as in the domain table
    bool refused() const { return url_error != UrlError::none || link_error != LinkError::none; }
};

struct Digest {
    unsigned char bytes[digest_size];
};

struct Code {
    char characters[code_max_length];
    std::size_t length = 0;
    std::string_view view() const { return {characters, length}; }
    static Code from(std::string_view text);
};

// The checks that need no table. The views live in the current memory context.
CheckedUrl check_url(std::string_view given);

// Appends what may stand in domain or blocked_host for the host of a URL.
void append_host_patterns(const CheckedUrl& url, Datum*& patterns, int& count, int& capacity);

// The workspace of that slug, NULL (no data) for the default one; an unknown one is an error. Its secret and
// the lists of hosts are read as their owner: who may make links need not be able to read them.
Workspace find_workspace(std::string_view slug, const Datum* patterns, int pattern_count);

// When has_refused_host: which of the URLs it is.
void check_hosts(CheckedUrl* urls, int count, const Datum* patterns, int pattern_count);

[[noreturn]] void raise_refusal(const CheckedUrl& url, std::string_view given);
char* refusal_message(const CheckedUrl& url, std::string_view given);

Digest digest_of(const Workspace& workspace, const CheckedUrl& url);
Datum digest_datum(const Digest& digest);

// Numbers of links. One stays on offer in this session until it is spent: when another session made the same
// link first, or the transaction failed before anybody saw the code, the next link gets it. So races burn
// no numbers.
int64 offer_id(CodeStyle style);
void spend_id(CodeStyle style, int64 id);

// Many at once: each is taken off, and what was not used goes back.
int64 take_id(CodeStyle style);
void return_id(CodeStyle style, int64 id);

Code code_of(const Workspace& workspace, int64 id);

// So often another number is tried when the code of one is taken.
inline constexpr int max_attempts = 100'000;
[[noreturn]] void raise_no_free_code();

} // namespace shortener
