#pragma once

// Who is at work: the workspace, the user and the scopes that an API key gave to the transaction or to the
// session, or else the workspace that the database role is bound to. SQL can read this and cannot forge it:
// it is memory of the backend that only authenticate() writes.
//
// A transaction's identity ends with it, also when it is prepared, and a rolled back savepoint takes back
// what came after it. A session's identity comes into force at commit, and `RESET shortener.session_key` and
// DISCARD ALL end it; it is an error from when the key is revoked, removed or expired, or its user suspended,
// and its scopes are those that the key has now. Parallel workers do not have it, so whatever asks for it is
// PARALLEL RESTRICTED.

#include <optional>
#include <string_view>

extern "C" {
#include "postgres.h"

#include "datatype/timestamp.h"
}

namespace shortener {

inline constexpr std::size_t key_prefix_length = 11; // sk_ and eight characters

// What an API key permits. A scope includes those below it in scope_of_name's table.
enum Scopes : uint32 { links_read = 1, links_write = 2, analytics_read = 4, admin = 8, all_scopes = 15 };

struct Identity {
    int32 workspace_id;
    int64 user_id; // 0: the key belongs to no user
    uint32 scopes;
    char key_prefix[key_prefix_length + 1];
    uint8 key_digest[32];
    TimestampTz expires_at; // DT_NOEND: never
};

// An error unless the API key in use has the scope of that name, or none is in use.
void require_scope(std::string_view name);

// The scope of that name, with those that it includes; 0 when there is none.
uint32 scope_of_name(std::string_view name) noexcept;

void begin_identity(const Identity& identity, bool for_session);

// Nobody has authenticated: nullptr.
const Identity* current_identity();

// What created_by of a link says of the user whose API key is in use; none without one.
std::optional<Datum> creating_user();

// The workspace in which the caller works who names none: that of the identity, else the one that the current
// role is bound to, else, for a role that row-level security restricts, the workspace `default`. 0: in none,
// or in one that has been deleted. No value: the caller may use every workspace, and the setting
// shortener.default_workspace decides.
std::optional<int32> working_workspace();

// Whether row-level security lets the caller see the links of a workspace, or what takes another scope.
bool may_use_workspace(int32 id);
bool may_use_workspace(int32 id, Scopes scope);

[[noreturn]] void raise_no_workspace();

void define_session();

} // namespace shortener
