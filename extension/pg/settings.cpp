#include "pg/settings.h"

#include "core/snowflake.h"

extern "C" {
#include "postgres.h"

#include "utils/guc.h"
}

namespace shortener {

Settings settings;

void define_settings() {
    DefineCustomStringVariable("shortener.default_workspace", "Workspace used when none is named.",
                               "Also the workspace whose codes are served at hosts that belong to none.",
                               &settings.default_workspace, "default", PGC_USERSET, 0, nullptr, nullptr,
                               nullptr);
    DefineCustomStringVariable("shortener.geoip_database",
                               "File from which country and city of an address are read.",
                               "It has MaxMind DB format; empty means none.", &settings.geoip_database, "",
                               PGC_SUSET, 0, nullptr, nullptr, nullptr);
    DefineCustomIntVariable("shortener.node_id", "Node number in the snowflake ids made by this server.",
                            "Servers whose links will ever be merged need different numbers.",
                            &settings.node_id, settings.node_id, 0, snowflake_max_node, PGC_SUSET, 0, nullptr,
                            nullptr, nullptr);
    DefineCustomStringVariable("shortener.user_agent_regexes",
                               "File of regular expressions that recognize user agents.",
                               "It has the format of regexes.yaml of uap-core.", &settings.user_agent_regexes,
                               "/usr/share/uap-core/regexes.yaml", PGC_SUSET, 0, nullptr, nullptr, nullptr);
    MarkGUCPrefixReserved("shortener");
}

} // namespace shortener
