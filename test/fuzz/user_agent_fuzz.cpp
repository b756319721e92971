#include <cstdlib>
#include <string>

#include "core/user_agent.h"
#include "core/utf8.h"

using namespace shortener;

namespace {

void must(bool condition) {
    if (!condition)
        std::abort();
}

const UserAgentParser& parser() {
    static const UserAgentParser parser("/usr/share/uap-core/regexes.yaml");
    return parser;
}

} // namespace

// The first byte chooses what stands before the others, so that a short run gets behind the filter too. What
// goes in as UTF-8 comes out as UTF-8.
extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
    static const char* const starts[] = {"", "Mozilla/5.0 (Linux; Android 9; ", "Opera/9.80 (",
                                         "Mozilla/5.0 (compatible; "};
    if (size == 0)
        return 0;
    const std::string text = starts[data[0] % std::size(starts)] + std::string(data + 1, data + size);
    const UserAgent agent = parser().parse(text);
    must(!device_type_name(agent.device_type).empty());
    must(!is_utf8(text) || (is_utf8(agent.browser.view()) && is_utf8(agent.browser_version.view()) &&
                            is_utf8(agent.os.view()) && is_utf8(agent.os_version.view())));
    return 0;
}
