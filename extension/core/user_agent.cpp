#include "core/user_agent.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <unordered_map>
#include <vector>

#include <re2/filtered_re2.h>

#include "core/ascii.h"
#include "core/utf8.h"
#include "core/yaml_records.h"

namespace shortener {

namespace {

using Needles = std::vector<std::string>;

std::string lower_case(std::string_view text) {
    std::string lower(text);
    std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) { return ascii_lower(c); });
    return lower;
}

// Finds which of many strings occur in a text. None is shorter than `min_length`, so the first bytes at each
// place of the text lead to the few that may begin there.
class StringFinder {
  public:
    static constexpr int min_length = 3;

    explicit StringFinder(Needles needles) : needles_(std::move(needles)) {
        for (std::size_t i = 0; i < needles_.size(); i++)
            by_start_[start_of(needles_[i].data())].push_back(static_cast<int>(i));
    }

    std::vector<int> find_in(std::string_view text) const {
        std::vector<int> found;
        for (; text.size() >= min_length; text.remove_prefix(1)) {
            const auto candidates = by_start_.find(start_of(text.data()));
            if (candidates == by_start_.end())
                continue;
            for (const int i : candidates->second)
                if (text.starts_with(needles_[i]))
                    found.push_back(i);
        }
        std::sort(found.begin(), found.end());
        found.erase(std::unique(found.begin(), found.end()), found.end());
        return found;
    }

  private:
    static std::uint32_t start_of(const char* text) {
        const auto* bytes = reinterpret_cast<const unsigned char*>(text);
        return bytes[0] | bytes[1] << 8 | bytes[2] << 16;
    }

    Needles needles_;
    std::unordered_map<std::uint32_t, std::vector<int>> by_start_;
};

// One of the three lists of the collection.
struct List {
    std::string_view name;
    std::array<std::string_view, 5> replacements; // the fields that give the parts
    std::array<int, 5> groups;                    // what gives a part that has none; 0 is nothing
    UserAgentParts UserAgentMatch::*result;
};

constexpr List lists[] = {
    {"user_agent_parsers",
     {"family_replacement", "v1_replacement", "v2_replacement", "v3_replacement", ""},
     {1, 2, 3, 4, 0},
     &UserAgentMatch::browser},
    {"os_parsers",
     {"os_replacement", "os_v1_replacement", "os_v2_replacement", "os_v3_replacement", "os_v4_replacement"},
     {1, 2, 3, 4, 5},
     &UserAgentMatch::os},
    {"device_parsers",
     {"device_replacement", "brand_replacement", "model_replacement", "", ""},
     {1, 0, 1, 0, 0},
     &UserAgentMatch::device},
};

struct Rule {
    const List* list;
    std::array<std::string, 5> templates; // with $1 to $9; empty for the group of the list
};

constexpr int max_groups = 10; // the whole match and $1 to $9

std::string substituted(std::string_view text, const re2::StringPiece (&groups)[max_groups]) {
    std::string result;
    for (std::size_t i = 0; i < text.size(); i++) {
        if (text[i] == '$' && i + 1 < text.size() && text[i + 1] >= '1' && text[i + 1] <= '9')
            result.append(groups[text[++i] - '0']);
        else
            result.push_back(text[i]);
    }
    return result;
}

std::string trimmed(std::string_view text) {
    const std::size_t first = text.find_first_not_of(' ');
    if (first == text.npos)
        return {};
    return std::string(text.substr(first, text.find_last_not_of(' ') - first + 1));
}

} // namespace

class UserAgentParser::Rules {
  public:
    explicit Rules(const std::string& path) : expressions_(StringFinder::min_length) {
        read_yaml_records(path, [&](std::string_view name, const YamlRecord& record) {
            try {
                add(name, record);
            } catch (const std::runtime_error& error) {
                throw std::runtime_error("file \"" + path + "\", line " + std::to_string(record.line) + ": " +
                                         error.what());
            }
        });
        if (rules_.empty())
            throw std::runtime_error("file \"" + path + "\" has no regular expressions for user agents");
        Needles needles;
        expressions_.Compile(&needles);
        finder_.emplace(std::move(needles));
    }

    UserAgentMatch match(std::string_view user_agent) const {
        std::vector<int> candidates;
        expressions_.AllPotentials(finder_->find_in(lower_case(user_agent)), &candidates);
        std::sort(candidates.begin(), candidates.end());
        return first_matches(user_agent, candidates);
    }

    UserAgentMatch match_each(std::string_view user_agent) const {
        std::vector<int> all(rules_.size());
        for (std::size_t i = 0; i < all.size(); i++)
            all[i] = static_cast<int>(i);
        return first_matches(user_agent, all);
    }

  private:
    void add(std::string_view name, const YamlRecord& record) {
        const List* const list =
            std::find_if(std::begin(lists), std::end(lists), [&](const List& l) { return l.name == name; });
        if (list == std::end(lists))
            return; // made for a later version of the specification
        re2::RE2::Options options;
        options.set_log_errors(false);
        if (const std::string_view flags = record["regex_flag"]; flags == "i")
            options.set_case_sensitive(false);
        else if (!flags.empty())
            throw std::runtime_error("unknown regex_flag \"" + std::string(flags) + "\"");
        Rule rule{list, {}};
        for (std::size_t i = 0; i < rule.templates.size(); i++) {
            rule.templates[i] = record[list->replacements[i]];
            if (has_control(rule.templates[i]))
                throw std::runtime_error("control character in a replacement");
        }
        add_expression(record["regex"], options);
        rules_.push_back(std::move(rule));
    }

    void add_expression(std::string_view regex, re2::RE2::Options& options) {
        int id;
        auto error = re2::RE2::ErrorInternal;
        for (const std::int64_t memory : {usual_memory, most_memory}) {
            options.set_max_mem(memory);
            error = regex.empty() ? error : expressions_.Add({regex.data(), regex.size()}, options, &id);
            if (error != re2::RE2::ErrorPatternTooLarge)
                break;
        }
        if (error != re2::RE2::NoError)
            throw std::runtime_error("invalid regular expression \"" + std::string(regex) + "\"");
    }

    // `candidates` are in the order of the file.
    UserAgentMatch first_matches(std::string_view user_agent, const std::vector<int>& candidates) const {
        UserAgentMatch result;
        bool is_found[std::size(lists)] = {};
        for (const int id : candidates) {
            const Rule& rule = rules_[id];
            bool& is_list_found = is_found[rule.list - lists];
            is_list_found = is_list_found || apply(id, rule, user_agent, result.*rule.list->result);
        }
        return result;
    }

    bool apply(int id, const Rule& rule, std::string_view user_agent, UserAgentParts& parts) const {
        const re2::RE2& expression = expressions_.GetRE2(id);
        re2::StringPiece groups[max_groups];
        const int count = std::min(expression.NumberOfCapturingGroups() + 1, max_groups);
        if (!expression.Match({user_agent.data(), user_agent.size()}, 0, user_agent.size(),
                              re2::RE2::UNANCHORED, groups, count))
            return false;
        for (std::size_t i = 0; i < parts.size(); i++) {
            const re2::StringPiece& group = groups[rule.list->groups[i]];
            parts[i] = !rule.templates[i].empty() ? trimmed(substituted(rule.templates[i], groups))
                       : rule.list->groups[i]     ? trimmed({group.data(), group.size()})
                                                  : std::string();
        }
        return true;
    }

    // Bounds each compiled expression with what it remembers of the texts it has seen: there are a thousand,
    // and less is faster. All of uap-core 0.16 do with the first.
    static constexpr std::int64_t usual_memory = 1 << 18, most_memory = 1 << 23;

    re2::FilteredRE2 expressions_;
    std::optional<StringFinder> finder_; // made when all expressions are known
    std::vector<Rule> rules_;
};

namespace {

// Signs in a User-Agent in lower case, and what it is then. The first that is found decides.
struct Sign {
    std::string_view text;
    DeviceType type;
};

constexpr Sign signs[] = {
    // Programs that say so themselves or give the address of a page about them.
    {"bot", DeviceType::bot},
    {"crawl", DeviceType::bot},
    {"spider", DeviceType::bot},
    {"+http", DeviceType::bot},
    {"headless", DeviceType::bot},
    {"externalhit", DeviceType::bot},
    {"preview", DeviceType::bot},
    {"monitor", DeviceType::bot},
    {"lighthouse", DeviceType::bot},
    {"whatsapp/", DeviceType::bot}, // fetches previews; links open in a browser
    // Libraries and tools.
    {"curl", DeviceType::bot},
    {"wget", DeviceType::bot},
    {"python", DeviceType::bot},
    {"aiohttp", DeviceType::bot},
    {"libwww", DeviceType::bot},
    {"http-client", DeviceType::bot},
    {"httpclient", DeviceType::bot},
    {"http_request", DeviceType::bot},
    {"okhttp", DeviceType::bot},
    {"axios", DeviceType::bot},
    {"node-fetch", DeviceType::bot},
    {"guzzle", DeviceType::bot},
    {"java/", DeviceType::bot},
    {"ruby", DeviceType::bot},
    {"postman", DeviceType::bot},
    // Of no type: televisions, consoles and watches.
    {"smart-tv", DeviceType::unknown},
    {"smarttv", DeviceType::unknown},
    {"smart tv", DeviceType::unknown},
    {"android tv", DeviceType::unknown},
    {"googletv", DeviceType::unknown},
    {"apple tv", DeviceType::unknown},
    {"appletv", DeviceType::unknown},
    {"hbbtv", DeviceType::unknown},
    {"bravia", DeviceType::unknown},
    {"playstation", DeviceType::unknown},
    {"nintendo", DeviceType::unknown},
    {"xbox", DeviceType::unknown},
    {"watchos", DeviceType::unknown},
    // Tablets that give no other sign.
    {"ipad", DeviceType::tablet},
    {"tablet", DeviceType::tablet},
    {"kindle", DeviceType::tablet},
    {"playbook", DeviceType::tablet},
    {"touchpad", DeviceType::tablet},
    {"iphone", DeviceType::mobile},
    {"ipod", DeviceType::mobile},
};

// What contains a sign without meaning it: a maker of phones, and Windows on what has a pen.
constexpr std::string_view false_signs[] = {"cubot", "tablet pc"};

constexpr std::string_view desktop_systems[] = {
    "Windows",       "Mac OS X",  "Mac OS",     "Linux",      "Chrome OS", "Ubuntu", "Kubuntu",
    "Debian",        "Fedora",    "Red Hat",    "CentOS",     "SUSE",      "Gentoo", "Mageia",
    "Mandriva",      "Slackware", "Arch Linux", "Linux Mint", "FreeBSD",   "NetBSD", "OpenBSD",
    "DragonFly BSD", "Solaris",   "BeOS",       "Haiku",      "AmigaOS",
};

std::optional<DeviceType> type_by_sign(std::string_view lower) {
    std::string text(lower);
    for (const std::string_view sign : false_signs)
        for (std::size_t at; (at = text.find(sign)) != text.npos;)
            text.erase(at, sign.size());
    for (const Sign& sign : signs)
        if (text.find(sign.text) != text.npos)
            return sign.type;
    return std::nullopt;
}

DeviceType type_of(std::string_view user_agent, const UserAgentMatch& match) {
    const std::string& device = match.device[0];
    if (device == "Spider")
        return DeviceType::bot;
    const std::string lower = lower_case(user_agent);
    if (const auto type = type_by_sign(lower))
        return *type;
    const bool is_mobile = lower.find("mobi") != lower.npos;
    // Browsers leave "Mobile" out on tablets; apps never say it.
    if (match.os[0] == "Android" && !is_mobile && lower.starts_with("mozilla/"))
        return DeviceType::tablet;
    if (is_mobile)
        return DeviceType::mobile;
    if (std::find(std::begin(desktop_systems), std::end(desktop_systems), match.os[0]) !=
        std::end(desktop_systems))
        return DeviceType::desktop;
    // What is left and has a name in the collection is a telephone.
    return device.empty() ? DeviceType::unknown : DeviceType::mobile;
}

template <std::size_t capacity>
void assign_version(BoundedText<capacity>& text, const UserAgentParts& parts) {
    for (std::size_t i = 1; i < parts.size() && !parts[i].empty(); i++) {
        text.append(i == 1 ? "" : ".");
        text.append(parts[i]);
    }
}

} // namespace

std::string_view device_type_name(DeviceType type) noexcept {
    static constexpr std::string_view names[] = {"unknown", "desktop", "mobile", "tablet", "bot"};
    return names[static_cast<int>(type)];
}

UserAgentParser::UserAgentParser(const std::string& path) : rules_(std::make_unique<Rules>(path)) {}
UserAgentParser::~UserAgentParser() = default;

UserAgentMatch UserAgentParser::match(std::string_view user_agent) const {
    return rules_->match(user_agent);
}

UserAgentMatch UserAgentParser::match_each(std::string_view user_agent) const {
    return rules_->match_each(user_agent);
}

UserAgent UserAgentParser::parse(std::string_view user_agent) const {
    const UserAgentMatch match = rules_->match(user_agent);
    UserAgent result;
    result.device_type = type_of(user_agent, match);
    result.browser.assign(match.browser[0]);
    assign_version(result.browser_version, match.browser);
    result.os.assign(match.os[0]);
    assign_version(result.os_version, match.os);
    return result;
}

} // namespace shortener
