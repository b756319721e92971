#pragma once

// What this backend knows of workspaces and hosts.
//
// It is read once, with the rights of the tables' owner: who may make links need not be able to read the
// secrets behind them, nor the block list. It is kept until one of the tables changes: their triggers call
// CacheInvalidateRelcache, and what that sends reaches every backend when the change is committed, on a
// standby when it is replayed, and this backend at once. So a change is seen by the next statement, at every
// isolation level: it is read as of now, never as of the snapshot of a transaction, as foreign keys are
// checked.

#include <optional>
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
    bool has_default_ttl;
    Interval default_ttl;
    int16 redirect_status;
    unsigned char key[16];
    bool is_deleted;

    // Of a link that is made now; DT_NOEND: never.
    TimestampTz default_expiry() const;
};

// The workspace of that slug, without one (no data) the default one; an unknown one is an error.
Workspace find_workspace(std::string_view slug);
Workspace find_workspace(int32 id);
std::optional<Workspace> find_workspace_if_any(int32 id);

// What no link may lead to.
enum class HostStatus { free, own_domain, blocked };

// Of hosts as in the domain table.
void find_host_statuses(const std::string_view* hosts, HostStatus* statuses, int count);

// The workspace whose codes are served for the Host header of a request, or without one (no data); none when
// that is the default workspace and there is no such workspace.
std::optional<int32> serving_workspace(std::string_view host);

} // namespace shortener
