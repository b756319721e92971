#pragma once

// What a program that calls itself by some User-Agent is, by the shared collection of regular expressions of
// the ua-parser project (https://github.com/ua-parser/uap-core, docs/specification.md there) and a few rules
// of our own for the type of device, which the collection does not tell.

#include <array>
#include <memory>
#include <string>
#include <string_view>

#include "core/bounded_text.h"

namespace shortener {

enum class DeviceType { unknown, desktop, mobile, tablet, bot };

std::string_view device_type_name(DeviceType type) noexcept;

// Owns nothing. An empty text is what is not known.
struct UserAgent {
    DeviceType device_type = DeviceType::unknown;
    BoundedText<64> browser;
    BoundedText<32> browser_version; // 120.0.6099
    BoundedText<64> os;
    BoundedText<32> os_version;
};

// What one list of the collection says: for browsers a family and up to three parts of its version, for
// systems up to four, for devices family, brand and model. All empty if no expression matches.
using UserAgentParts = std::array<std::string, 5>;

struct UserAgentMatch {
    UserAgentParts browser;
    UserAgentParts os;
    UserAgentParts device;
};

class UserAgentParser {
  public:
    // Reads and compiles the collection; throws std::runtime_error that says what is wrong with the file.
    explicit UserAgentParser(const std::string& path);
    ~UserAgentParser();
    UserAgentParser(const UserAgentParser&) = delete;
    UserAgentParser& operator=(const UserAgentParser&) = delete;

    UserAgent parse(std::string_view user_agent) const;

    // As the collection's specification says: of each list the first expression that matches.
    UserAgentMatch match(std::string_view user_agent) const;

    // The same, slowly: every expression is tried in turn. For tests.
    UserAgentMatch match_each(std::string_view user_agent) const;

  private:
    class Rules;
    std::unique_ptr<Rules> rules_;
};

} // namespace shortener
