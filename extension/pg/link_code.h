#pragma once

// The numbers and codes of new links.

#include <optional>
#include <string_view>

#include "core/code.h"

#include "pg/workspace_memory.h"

extern "C" {
#include "postgres.h"
}

namespace shortener {

struct Code {
    char characters[code_max_length];
    std::size_t length = 0;
    std::string_view view() const { return {characters, length}; }
    static Code from(std::string_view text);
};

Code code_of(const Workspace& workspace, int64 id);

// The number whose scrambled code this is or would be, whether or not it was ever given out; none for what is
// no scrambled code.
std::optional<int64> number_of(const Workspace& workspace, std::string_view code);

// Numbers of links. One stays on offer in this session until it is spent: when another session made the same
// link first, or the transaction failed before anybody saw the code, the next link gets it. So races burn
// no numbers.
int64 offer_id(CodeStyle style);
void spend_id(CodeStyle style, int64 id);

// Many at once: each is taken off, and what was not used goes back.
int64 take_id(CodeStyle style);
void return_id(CodeStyle style, int64 id);

// Takes numbers whose codes are neither reserved nor were used before.
void draw_codes(const Workspace& workspace, Code* codes, int64* ids, int count);

// The code if it is one that nobody can have guessed before it was generated; no data otherwise.
inline std::string_view unguessable(const Workspace& workspace, const Code& code) {
    return workspace.code_style == CodeStyle::scrambled ? code.view() : std::string_view();
}

// So often another number is tried when the code of one is taken.
inline constexpr int max_attempts = 100'000;
[[noreturn]] void raise_no_free_code();

// So often a link is tried that is neither stored nor found. Once or twice may be by the doing of another
// session.
inline constexpr int max_hidden_attempts = 10;
[[noreturn]] void raise_hidden(std::string_view link);

// These codes, and these numbers, as arrays.
Datum code_array(const Code* codes, int count);
Datum id_array(const int64* ids, int count);

// Whether a link that the caller can see has one of these codes. Between SPI_connect and SPI_finish.
bool is_any_code_taken(const Workspace& workspace, const Code* codes, int count);

// The same of numbers: a link that was made by hand, or restored, may be ahead of the sequence.
bool is_any_id_taken(const Workspace& workspace, const int64* ids, int count);

} // namespace shortener
