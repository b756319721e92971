#include "core/user_agent.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "core/yaml_records.h"

namespace shortener {
namespace {

// A file that is there as long as the object.
class TemporaryFile {
  public:
    explicit TemporaryFile(std::string_view content) {
        close(mkstemp(path_));
        std::ofstream(path_) << content;
    }
    ~TemporaryFile() { unlink(path_); }
    const char* path() const { return path_; }

  private:
    char path_[32] = "/tmp/user_agent_test_XXXXXX";
};

// What is wrong with a file of this content, without its name.
std::string problem(std::string_view content) {
    const TemporaryFile file(content);
    try {
        const UserAgentParser parser(file.path());
        return "nothing";
    } catch (const std::runtime_error& error) {
        const std::string prefix = "file \"" + std::string(file.path()) + "\"";
        const std::string text = error.what();
        return text.starts_with(prefix) ? text.substr(prefix.size()) : text;
    }
}

const UserAgentParser& installed_parser() {
    static const UserAgentParser parser("/usr/share/uap-core/regexes.yaml");
    return parser;
}

UserAgentParts first(std::initializer_list<const char*> parts) {
    UserAgentParts result;
    std::copy(parts.begin(), parts.end(), result.begin());
    return result;
}

TEST(UserAgent, TheFirstMatchInTheOrderOfTheFileWins) {
    const TemporaryFile file("user_agent_parsers:\n"
                             "  - regex: '(Alpha|Beta)/(\\d+)'\n"
                             "  - regex: '(Gamma)/(\\d+)\\.(\\d+)'\n"
                             "    family_replacement: 'The $1'\n"
                             "    v1_replacement: '2$2'\n"
                             "  - regex: '(Alpha) Special'\n");
    const UserAgentParser parser(file.path());
    EXPECT_EQ(parser.match("Alpha Special Gamma/1.5 Alpha/7").browser, first({"Alpha", "7"}));
    EXPECT_EQ(parser.match("Alpha Special Gamma/1.5").browser, first({"The Gamma", "21", "5"}));
    EXPECT_EQ(parser.match("Alpha Special").browser, first({"Alpha"}));
    EXPECT_EQ(parser.match("alpha special").browser, first({})) << "case counts";
    EXPECT_EQ(parser.match("").browser, first({}));
}

TEST(UserAgent, DevicesAreTakenFromNineGroups) {
    const TemporaryFile file("device_parsers:\n"
                             "  - regex: 'p(.)(.)(.)(.)(.)(.)(.)(.)(.)'\n"
                             "    regex_flag: 'i'\n"
                             "    device_replacement: ' $9$8 $1 '\n"
                             "    brand_replacement: '$'\n"
                             "  - regex: 'q(x|)'\n"
                             "    device_replacement: '$1$2'\n");
    const UserAgentParser parser(file.path());
    EXPECT_EQ(parser.match("P123456789").device, first({"98 1", "$", "1"}));
    EXPECT_EQ(parser.match("q").device, first({}));
}

TEST(UserAgent, AnyQuotingIsRead) {
    const TemporaryFile file("# comment\nunknown_list: []\nos_parsers:\n"
                             "- {regex: \"(It)''s\", os_replacement: \"\\u00e9\"}\n"
                             "- regex: '(It''s)'\n");
    const UserAgentParser parser(file.path());
    EXPECT_EQ(parser.match("It''s").os, first({"\xc3\xa9"}));
    EXPECT_EQ(parser.match("It's").os, first({"It's"}));
}

TEST(UserAgent, AFileThatCannotBeUsedSaysWhy) {
    EXPECT_EQ(problem(""), ", line 1: expected a document");
    EXPECT_EQ(problem("- a"), ", line 1: expected names of lists");
    EXPECT_EQ(problem("os_parsers: {}"), ", line 1: expected a list");
    EXPECT_EQ(problem("os_parsers:\n - a"), ", line 2: expected a record");
    EXPECT_EQ(problem("os_parsers:\n - a: [b]"), ", line 2: expected plain text");
    EXPECT_EQ(problem("os_parsers:\n - regex: '(a'"), ", line 2: invalid regular expression \"(a\"");
    EXPECT_EQ(problem("os_parsers:\n - regex: ''"), ", line 2: invalid regular expression \"\"");
    EXPECT_EQ(problem("os_parsers:\n - regex: a\n   regex_flag: x"), ", line 2: unknown regex_flag \"x\"");
    EXPECT_EQ(problem("os_parsers:\n - {regex: a, os_replacement: \"\\0\"}"),
              ", line 2: control character in a replacement");
    EXPECT_EQ(problem("test_cases: []"), " has no regular expressions for user agents");
    EXPECT_EQ(problem("a: 'b"), ", line 1: found unexpected end of stream");
    EXPECT_THROW(UserAgentParser("/nonexistent"), std::runtime_error);
    EXPECT_THROW(UserAgentParser("/tmp"), std::runtime_error);
}

// Typical programs, and those that the rules of our own are for.
TEST(UserAgent, DeviceTypes) {
    const std::pair<DeviceType, const char*> examples[] = {
        {DeviceType::desktop,
         "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) "
         "Chrome/120.0.0.0 Safari/537.36"},
        {DeviceType::desktop,
         "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like "
         "Gecko) Version/17.2 Safari/605.1.15"},
        {DeviceType::desktop,
         "Mozilla/5.0 (X11; Ubuntu; Linux x86_64; rv:120.0) Gecko/20100101 Firefox/120.0"},
        {DeviceType::desktop,
         "Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) AppleWebKit/537.36 (KHTML, like Gecko) "
         "Chrome/120.0.0.0 Safari/537.36"},
        {DeviceType::desktop,
         "Mozilla/4.0 (compatible; MSIE 8.0; Windows NT 6.1; Trident/4.0; Tablet PC 2.0)"},
        {DeviceType::mobile,
         "Mozilla/5.0 (iPhone; CPU iPhone OS 17_2 like Mac OS X) AppleWebKit/605.1.15 (KHTML, "
         "like Gecko) Version/17.2 Mobile/15E148 Safari/604.1"},
        {DeviceType::mobile,
         "Mozilla/5.0 (Linux; Android 13; Pixel 7) AppleWebKit/537.36 (KHTML, like Gecko) "
         "Chrome/120.0.0.0 Mobile Safari/537.36"},
        {DeviceType::mobile,
         "Mozilla/5.0 (Linux; Android 9; CUBOT X19) AppleWebKit/537.36 (KHTML, like Gecko) "
         "Chrome/80.0.0.0 Mobile Safari/537.36"},
        {DeviceType::mobile, "Dalvik/2.1.0 (Linux; U; Android 9; SM-G960F Build/PPR1.180610.011)"},
        {DeviceType::mobile, "Nokia6100/1.0 (04.01) Profile/MIDP-1.0 Configuration/CLDC-1.0"},
        {DeviceType::tablet,
         "Mozilla/5.0 (iPad; CPU OS 16_3 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) "
         "Version/16.3 Mobile/15E148 Safari/604.1"},
        {DeviceType::tablet,
         "Mozilla/5.0 (Linux; Android 12; SM-T870) AppleWebKit/537.36 (KHTML, like Gecko) "
         "Chrome/120.0.0.0 Safari/537.36"},
        {DeviceType::tablet, "Mozilla/5.0 (Android 13; Tablet; rv:120.0) Gecko/120.0 Firefox/120.0"},
        {DeviceType::bot, "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"},
        {DeviceType::bot,
         "Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X) AppleWebKit/537.36 (KHTML, like Gecko) "
         "Chrome/120.0.0.0 Mobile Safari/537.36 (compatible; Googlebot/2.1; "
         "+http://www.google.com/bot.html)"},
        {DeviceType::bot, "facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)"},
        {DeviceType::bot, "WhatsApp/2.23.20.0"},
        {DeviceType::bot, "curl/7.88.1"},
        {DeviceType::bot, "python-requests/2.31.0"},
        {DeviceType::bot, "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) "
                          "HeadlessChrome/120.0.0.0 Safari/537.36"},
        {DeviceType::unknown,
         "Mozilla/5.0 (SMART-TV; Linux; Tizen 6.0) AppleWebKit/537.36 (KHTML, like Gecko) "
         "Version/6.0 TV Safari/537.36"},
        {DeviceType::unknown, "Mozilla/5.0 (PlayStation 4 9.00) AppleWebKit/605.1.15 (KHTML, like Gecko)"},
        {DeviceType::unknown, "x"},
        {DeviceType::unknown, ""},
    };
    for (const auto& [type, text] : examples)
        EXPECT_EQ(device_type_name(installed_parser().parse(text).device_type), device_type_name(type))
            << text;
}

TEST(UserAgent, NamesAndVersions) {
    const UserAgent agent =
        installed_parser().parse("Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 "
                                 "(KHTML, like Gecko) Chrome/120.0.6099.71 Safari/537.36");
    EXPECT_EQ(agent.browser.view(), "Chrome");
    EXPECT_EQ(agent.browser_version.view(), "120.0.6099");
    EXPECT_EQ(agent.os.view(), "Windows");
    EXPECT_EQ(agent.os_version.view(), "10");
}

TEST(UserAgent, NamesAreCutAtACharacter) {
    BoundedText<5> text;
    text.assign("abcd\xc3\xa9");
    EXPECT_EQ(text.view(), "abcd");
    text.assign("abc\xc3\xa9x");
    EXPECT_EQ(text.view(), "abc\xc3\xa9");
    text.append("more");
    EXPECT_EQ(text.view(), "abc\xc3\xa9");
    text.assign("");
    EXPECT_TRUE(text.empty());
}

// What uap-core ships to test an implementation with.
struct Collection {
    const char* file;
    UserAgentParts UserAgentMatch::*result;
    std::vector<const char*> fields;
};

const std::vector<const char*> browser_fields = {"family", "major", "minor", "patch"};
const std::vector<const char*> os_fields = {"family", "major", "minor", "patch", "patch_minor"};
const std::vector<const char*> device_fields = {"family", "brand", "model"};

const Collection collections[] = {
    {"tests/test_ua.yaml", &UserAgentMatch::browser, browser_fields},
    {"tests/test_os.yaml", &UserAgentMatch::os, os_fields},
    {"tests/test_device.yaml", &UserAgentMatch::device, device_fields},
    {"test_resources/additional_os_tests.yaml", &UserAgentMatch::os, os_fields},
    {"test_resources/firefox_user_agent_strings.yaml", &UserAgentMatch::browser, browser_fields},
    {"test_resources/opera_mini_user_agent_strings.yaml", &UserAgentMatch::browser, browser_fields},
    {"test_resources/pgts_browser_list.yaml", &UserAgentMatch::browser, browser_fields},
    {"test_resources/podcasting_user_agent_strings.yaml", &UserAgentMatch::browser, browser_fields},
};

template <typename Take> void each_example(const Collection& collection, Take&& take) {
    read_yaml_records(std::string("/usr/share/uap-core/") + collection.file,
                      [&](std::string_view, const YamlRecord& record) { take(record); });
}

// Where nothing matches, "Other" is expected.
std::string family_or_other(std::string_view family) {
    return family == "Other" ? "" : std::string(family);
}

TEST(UserAgent, AgreesWithTheCollectionsOfUapCore) {
    for (const Collection& collection : collections) {
        int count = 0, agreed = 0;
        each_example(collection, [&](const YamlRecord& record) {
            UserAgentParts expected;
            for (std::size_t i = 0; i < collection.fields.size(); i++)
                expected[i] = record[collection.fields[i]];
            expected[0] = family_or_other(expected[0]);
            UserAgentParts found = installed_parser().match(record["user_agent_string"]).*collection.result;
            found[0] = family_or_other(found[0]);
            count++;
            agreed += found == expected;
            EXPECT_EQ(found, expected) << collection.file << ", line " << record.line;
        });
        std::printf("uap-core %s: %d of %d agree\n", collection.file, agreed, count);
        EXPECT_GT(count, 0);
    }
}

TEST(UserAgent, TheFilterLeavesNoMatchOut) {
    int number = 0;
    for (const Collection& collection : collections) {
        each_example(collection, [&](const YamlRecord& record) {
            if (number++ % 100 != 0) // trying every expression is slow
                return;
            const std::string_view text = record["user_agent_string"];
            const UserAgentMatch filtered = installed_parser().match(text),
                                 all = installed_parser().match_each(text);
            EXPECT_EQ(filtered.browser, all.browser) << text;
            EXPECT_EQ(filtered.os, all.os) << text;
            EXPECT_EQ(filtered.device, all.device) << text;
        });
    }
}

} // namespace
} // namespace shortener
