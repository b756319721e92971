#include "pg/url.h"

#include <algorithm>

#include "core/bounded_text.h"
#include "core/url_parameter.h"
#include "core/utf8.h"

#include "pg/errors.h"
#include "pg/guard.h"
#include "pg/text.h"
#include "pg/visitor.h"

extern "C" {
#include "catalog/pg_type.h"
#include "mb/pg_wchar.h"
}

using namespace shortener;

namespace shortener {

std::string_view utf8_from_database(std::string_view text) {
    const int encoding = GetDatabaseEncoding();
    // ASCII is the same in every encoding of a database, and what is too long is refused unseen.
    if (encoding == PG_UTF8 || encoding == PG_SQL_ASCII || text.size() > url_max_length || is_ascii(text))
        return text;
    auto* source = reinterpret_cast<unsigned char*>(const_cast<char*>(text.data()));
    unsigned char* converted =
        pg_do_encoding_conversion(source, static_cast<int>(text.size()), encoding, PG_UTF8);
    return reinterpret_cast<char*>(converted);
}

UrlRules url_rules_from_array(ArrayType* names) {
    Datum* elements;
    bool* nulls;
    int count;
    deconstruct_array(names, TEXTOID, -1, false, TYPALIGN_INT, &elements, &nulls, &count);
    UrlRules rules = UrlRules::none;
    for (int i = 0; i < count; i++) {
        const std::string_view name = nulls[i] ? "NULL" : text_view(elements[i]);
        const UrlRules rule = nulls[i] ? UrlRules::none : url_rule(name);
        if (rule == UrlRules::none)
            raise(LinkError::unknown_rule, name);
        rules = rules | rule;
    }
    return rules;
}

} // namespace shortener

SHORTENER_FUNCTION(shortener_canonical_url) {
    const std::string_view given = text_argument(fcinfo, 0);
    const std::string_view input = utf8_from_database(given);
    UrlBuffer buffer(input.size());
    Url url;
    const UrlError error = canonical_url(input, buffer.span(), url);
    if (error != UrlError::none)
        raise(error, given);
    PG_RETURN_DATUM(text_datum(url.href));
}

SHORTENER_FUNCTION(shortener_is_url) {
    const std::string_view given = text_argument(fcinfo, 0);
    const std::string_view input = utf8_from_database(given);
    UrlBuffer buffer(input.size());
    Url url;
    const UrlError error = canonical_url(input, buffer.span(), url);
    if (error == UrlError::idna_failed) // no answer is not "no"
        raise(error, given);
    PG_RETURN_BOOL(error == UrlError::none);
}

SHORTENER_FUNCTION(shortener_normalize_url) {
    const std::string_view given = text_argument(fcinfo, 0);
    const UrlRules rules = url_rules_from_array(PG_GETARG_ARRAYTYPE_P(1));
    const std::string_view input = utf8_from_database(given);
    UrlBuffer buffer(input.size());
    std::string_view key;
    const UrlError error = normalize_url(input, rules, buffer.span(), key);
    if (error != UrlError::none)
        raise(error, given);
    PG_RETURN_DATUM(text_datum(key));
}

SHORTENER_FUNCTION(shortener_url_parameter) {
    const std::string_view url = text_argument(fcinfo, 0);
    const std::size_t size = url.size();
    char* const storage = static_cast<char*>(palloc(size + 1));
    const std::string_view value = url_parameter(url, text_argument(fcinfo, 1), {storage, size});
    if (value.empty())
        PG_RETURN_NULL();
    if (!is_utf8(value) || has_control(value)) // a click must not fail because of what a link says of itself
        std::replace_if(
            storage, storage + value.size(), [](unsigned char c) { return c < ' ' || c > '~'; }, '?');
    BoundedText<100> cut;
    cut.assign(ascii_unless_utf8(value));
    PG_RETURN_DATUM(text_datum(cut.view()));
}
