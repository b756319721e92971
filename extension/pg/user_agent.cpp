#include "core/user_agent.h"

#include <algorithm>
#include <memory>
#include <stdexcept>

#include "core/utf8.h"

#include "pg/guard.h"
#include "pg/settings.h"
#include "pg/text.h"
#include "pg/visitor.h"

extern "C" {
#include "access/htup_details.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
}

using namespace shortener;

namespace {

using Problem = BoundedText<400>;

// Says what was wrong if there is no parser then.
UserAgentParser* read_parser(const char* path, Problem& problem) {
    try {
        return std::make_unique<UserAgentParser>(path).release();
    } catch (const std::runtime_error& error) {
        problem.assign(error.what());
        return nullptr;
    }
}

// The parser for the setting, or nullptr; made once in a session, as long as the setting stays.
const UserAgentParser* current_parser() {
    static char* path = nullptr;
    static UserAgentParser* parser = nullptr;
    if (path && strcmp(path, settings.user_agent_regexes) == 0)
        return parser;

    char* const new_path = MemoryContextStrdup(TopMemoryContext, settings.user_agent_regexes);
    Problem problem;
    UserAgentParser* const new_parser = read_parser(new_path, problem);
    delete parser;
    parser = new_parser;
    if (path)
        pfree(path);
    path = new_path;
    if (!parser) {
        const std::string_view reason = ascii_unless_utf8(problem.view());
        ereport(WARNING, (errcode(ERRCODE_CONFIG_FILE_ERROR), errmsg("user agents cannot be recognized"),
                          errdetail("%.*s", static_cast<int>(reason.size()), reason.data()),
                          errhint("Install the package uap-core, or set shortener.user_agent_regexes.")));
    }
    return parser;
}

} // namespace

namespace shortener {

std::string_view ascii_unless_utf8(std::string_view text) {
    if (GetDatabaseEncoding() == PG_UTF8 || is_ascii(text))
        return text;
    auto* ascii = static_cast<char*>(palloc(text.size()));
    std::transform(text.begin(), text.end(), ascii, [](char c) { return IS_HIGHBIT_SET(c) ? '?' : c; });
    return {ascii, text.size()};
}

std::string_view cut_user_agent(std::string_view user_agent) {
    const auto length = static_cast<int>(user_agent.size());
    return user_agent.substr(0, pg_mbcharcliplen(user_agent.data(), length, user_agent_max_length));
}

UserAgent parse_user_agent(std::string_view user_agent) {
    const UserAgentParser* parser = current_parser();
    if (!parser)
        return {};
    UserAgent result = parser->parse(ascii_unless_utf8(user_agent));
    const auto to_database = [](auto& text) { text.assign(ascii_unless_utf8(text.view())); };
    to_database(result.browser);
    to_database(result.browser_version);
    to_database(result.os);
    to_database(result.os_version);
    return result;
}

} // namespace shortener

SHORTENER_FUNCTION(shortener_parse_user_agent) {
    TupleDesc row;
    if (get_call_result_type(fcinfo, nullptr, &row) != TYPEFUNC_COMPOSITE)
        elog(ERROR, "return type must be a row type");
    const UserAgent user_agent = parse_user_agent(cut_user_agent(text_argument(fcinfo, 0)));
    const auto or_unknown = [](std::string_view name) { return text_datum(name.empty() ? "unknown" : name); };
    Datum values[] = {
        text_datum(device_type_name(user_agent.device_type)),
        or_unknown(user_agent.browser.view()),
        text_datum(user_agent.browser_version.view()),
        or_unknown(user_agent.os.view()),
        text_datum(user_agent.os_version.view()),
    };
    bool nulls[] = {false, false, user_agent.browser_version.empty(), false, user_agent.os_version.empty()};
    PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(row), values, nulls)));
}
