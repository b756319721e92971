#include "pg/click_dictionary.h"

#include <algorithm>

#include "pg/plans.h"

extern "C" {
#include "catalog/pg_type.h"
}

namespace shortener {

struct Dictionary {
    KeptStatement find; // of the texts the place in the array, the number, and whether last seen before today
    KeptStatement touch; // says that the numbers were seen today
    KeptStatement count; // rows first seen today, up to a limit
    KeptStatement add;   // the texts, seen today
};

#define DICTIONARY(table, term, columns, values, source)                                                     \
    Dictionary {                                                                                             \
        {"SELECT t.place, d.id, d.last_seen OPERATOR(pg_catalog.<) $today"                                   \
         " FROM pg_catalog.unnest($terms) WITH ORDINALITY t (term, place) CROSS JOIN LATERAL"                \
         " (SELECT k.id, k.last_seen FROM shortener." table " k"                                             \
         " WHERE k.workspace_id OPERATOR(pg_catalog.=) $workspace"                                           \
         " AND k." term " OPERATOR(pg_catalog.=) t.term OFFSET 0) d",                                        \
         {{"workspace", INT4OID}, {"terms", TEXTARRAYOID}, {"today", DATEOID}}},                             \
            {"UPDATE shortener." table " SET last_seen = $today"                                             \
             " WHERE workspace_id OPERATOR(pg_catalog.=) $workspace"                                         \
             " AND id OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT k.id FROM shortener." table " k"              \
             " WHERE k.workspace_id OPERATOR(pg_catalog.=) $workspace"                                       \
             " AND k.id OPERATOR(pg_catalog.=) ANY ($ids)"                                                   \
             " AND k.last_seen OPERATOR(pg_catalog.<) $today ORDER BY k.id FOR UPDATE))",                    \
             {{"workspace", INT4OID}, {"ids", INT4ARRAYOID}, {"today", DATEOID}}},                           \
            {"SELECT pg_catalog.count(*) FROM (SELECT FROM shortener." table                                 \
             " WHERE workspace_id OPERATOR(pg_catalog.=) $workspace"                                         \
             " AND first_seen OPERATOR(pg_catalog.=) $today LIMIT $most) n",                                 \
             {{"workspace", INT4OID}, {"today", DATEOID}, {"most", INT8OID}}},                               \
        {                                                                                                    \
            "INSERT INTO shortener." table " (workspace_id, first_seen, last_seen, " term columns ")"        \
            " SELECT $workspace, $today, $today, t.term" values                                              \
            " FROM pg_catalog.unnest($terms) t (term)" source                                                \
            " ORDER BY t.term COLLATE pg_catalog.\"C\" ON CONFLICT DO NOTHING",                              \
            {                                                                                                \
                {"workspace", INT4OID}, {"terms", TEXTARRAYOID}, {                                           \
                    "today", DATEOID                                                                         \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
    }

Dictionary user_agents =
    DICTIONARY("user_agent", "user_agent", ", device, browser, browser_version, os, os_version",
               ", p.device_type, p.browser, p.browser_version, p.os, p.os_version",
               " CROSS JOIN LATERAL shortener.parse_user_agent(t.term) p");
Dictionary referrers = DICTIONARY("referrer", "host", "", "", "");
Dictionary places = DICTIONARY("place", "name", "", "", "");

namespace {

// So many rows are added to a dictionary of a workspace a day. What comes after them is unknown: somebody who
// makes user agents up fills neither the disk nor the processor, which parses each new one.
constexpr int64 max_new_terms = 2000;

Datum text_array(const Terms& terms, const int* chosen, int count) {
    return array_from(count, TEXTOID, [&](int i) { return text_datum(terms[chosen[i]]); });
}

int64 new_terms(Dictionary& dictionary, Datum workspace, Datum today) {
    return dictionary.count
        .run({{"workspace", workspace}, {"today", today}, {"most", Int64GetDatum(max_new_terms)}})[0]
        .required<int64>(1);
}

} // namespace

const int32* numbers_of(Dictionary& dictionary, int32 workspace_id, const Terms& terms, DateADT day) {
    const Datum workspace = Int32GetDatum(workspace_id), today = DateADTGetDatum(day);
    int32* const numbers = allocate<int32>(terms.count());
    std::fill_n(numbers, terms.count(), 0);
    int* const wanted = allocate<int>(terms.count());
    int count = 0;
    for (int i = 0; i < terms.count(); i++)
        if (!terms[i].empty())
            wanted[count++] = i;

    // Twice round usually suffices: look, add, look. A row that goes while it is wanted has not been seen for
    // a year.
    for (int round = 0; round < 4 && count > 0; round++) {
        const Rows found = dictionary.find.run(
            {{"workspace", workspace}, {"terms", text_array(terms, wanted, count)}, {"today", today}});
        const bool found_all = found.count() == static_cast<uint64>(count);
        Datum* const stale = allocate<Datum>(count);
        int stale_count = 0;
        for (uint64 i = 0; i < found.count(); i++) {
            const int32 number = found[i].required<int32>(2);
            if (found[i].required<bool>(3))
                stale[stale_count++] = Int32GetDatum(number);
            else
                numbers[wanted[found[i].required<int64>(1) - 1]] = number;
        }
        count = static_cast<int>(
            std::remove_if(wanted, wanted + count, [&](int i) { return numbers[i] != 0; }) - wanted);
        if (stale_count > 0)
            dictionary.touch.run(
                {{"workspace", workspace}, {"ids", array_of(stale, stale_count, INT4OID)}, {"today", today}});
        if (!found_all) {
            const int room = static_cast<int>(
                std::min<int64>(max_new_terms - new_terms(dictionary, workspace, today), count));
            if (room > 0)
                dictionary.add.run(
                    {{"workspace", workspace}, {"terms", text_array(terms, wanted, room)}, {"today", today}});
            else if (stale_count == 0)
                break;
        }
    }
    return numbers;
}

} // namespace shortener
