#pragma once

namespace shortener {

// The settings of the extension (shortener.*), all defined in settings.cpp.
struct Settings {
    char* default_workspace = nullptr; // a slug
    int node_id = 0;
};

extern Settings settings;

void define_settings();

} // namespace shortener
