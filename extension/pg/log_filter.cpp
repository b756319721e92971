#include "pg/log_filter.h"

#include <cctype>
#include <cstring>
#include <string_view>

#include "pg/session.h"

extern "C" {
#include "postgres.h"

#include "port.h"
#include "tcop/tcopprot.h"
#include "utils/elog.h"
}

namespace shortener {

namespace {

constexpr std::size_t key_length = 46;

emit_log_hook_type next_hook = nullptr;

std::size_t length_of_key(const char* text) noexcept {
    std::size_t length = 3;
    while (std::isalnum(static_cast<unsigned char>(text[length])))
        length++;
    return length;
}

const char* find_key(const char* text) noexcept {
    while (text && (text = std::strstr(text, "sk_"))) {
        const std::size_t length = length_of_key(text);
        // A parameter that was cut off may end in what is left of one.
        const bool is_cut_off = length > key_prefix_length && std::strncmp(text + length, "...'", 4) == 0;
        if (length >= key_length || is_cut_off)
            return text;
        text += length;
    }
    return nullptr;
}

void hide_keys(char* text) noexcept {
    const char* key = text;
    while ((key = find_key(key))) {
        const std::size_t length = length_of_key(key);
        std::memset(text + (key - text) + key_prefix_length, '*', length - key_prefix_length);
        key += length;
    }
}

// Whether the statement may have a password as an argument.
bool names_password_function(const char* statement) noexcept {
    constexpr std::string_view functions[] = {"set_password", "verify_password", "hash_password",
                                              "check_password"};
    for (const char* text = statement; text && *text;) {
        std::size_t length = 0;
        while (std::isalnum(static_cast<unsigned char>(text[length])) || text[length] == '_')
            length++;
        for (const std::string_view function : functions)
            if (length == function.size() && pg_strncasecmp(text, function.data(), length) == 0)
                return true;
        text += length > 0 ? length : 1;
    }
    return false;
}

// What stands before the first one may be translated.
void hide_parameters(ErrorData* data) {
    for (char* const text : {data->detail, data->context})
        if (char* const parameters = text ? std::strstr(text, "$1 = ") : nullptr)
            *parameters = '\0';
}

void filter(ErrorData* data) {
    for (char* const text :
         {data->message, data->detail, data->detail_log, data->hint, data->context, data->internalquery})
        hide_keys(text);
    if (find_key(debug_query_string))
        data->hide_stmt = true;
    if (data->elevel >= ERROR && names_password_function(debug_query_string)) {
        data->hide_stmt = true;
        hide_parameters(data);
    }
    if (next_hook)
        next_hook(data);
}

} // namespace

void filter_log() {
    next_hook = emit_log_hook;
    emit_log_hook = filter;
}

} // namespace shortener
