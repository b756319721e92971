#pragma once

namespace shortener {

// The settings of the extension (shortener.*), all defined in settings.cpp.
struct Settings {
    char* default_workspace = nullptr; // a slug
    char* geoip_database = nullptr;    // a path; empty for none
    int node_id = 0;
    char* user_agent_regexes = nullptr; // a path
};

extern Settings settings;

void define_settings();

} // namespace shortener
