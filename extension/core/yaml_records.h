#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shortener {

// A record is what `key: value` lines say; a value left out is empty.
struct YamlRecord {
    int line = 0;
    std::vector<std::pair<std::string, std::string>> fields;

    // Empty if there is no such field.
    std::string_view operator[](std::string_view key) const noexcept;
};

// Reads a YAML file that maps names to lists of flat records, which the files of uap-core are, and gives each
// record with the name of its list. Throws std::runtime_error that names the file, the line and what is
// wrong. With libyaml: it is plain C that neither throws nor jumps, and knows every way to quote.
void read_yaml_records(const std::string& path,
                       const std::function<void(std::string_view list, const YamlRecord&)>& take);

} // namespace shortener
