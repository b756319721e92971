#include "pg/click_salt.h"

#include <optional>

#include "pg/owner_section.h"
#include "pg/plans.h"

extern "C" {
#include "catalog/pg_type.h"
#include "miscadmin.h"
}

namespace shortener {

namespace {

std::optional<SipKey> read_salt(Datum day) {
    static KeptStatement statement(
        "SELECT salt FROM shortener.click_salt WHERE day OPERATOR(pg_catalog.=) $day", {{"day", DATEOID}});
    const Rows rows = statement.run_latest({{"day", day}});
    if (rows.empty())
        return std::nullopt;
    unsigned char bytes[16] = {};
    rows[0].required<std::string_view>(1).copy(reinterpret_cast<char*>(bytes), sizeof bytes);
    return SipKey::from_bytes(bytes);
}

} // namespace

SipKey salt_of(DateADT date) {
    static KeptStatement insert(
        "INSERT INTO shortener.click_salt (day, salt) VALUES ($day, $salt) ON CONFLICT DO NOTHING",
        {{"day", DATEOID}, {"salt", BYTEAOID}});
    const Datum day = DateADTGetDatum(date);
    const OwnerSection reading = OwnerSection::to_read({"click_salt"});
    std::optional<SipKey> salt = read_salt(day);
    reading.end();
    if (salt)
        return *salt;
    char bytes[16];
    if (!pg_strong_random(bytes, sizeof bytes))
        ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not generate random bytes")));
    const OwnerSection writing = OwnerSection::to_write({"click_salt"});
    insert.run({{"day", day}, {"salt", text_datum({bytes, sizeof bytes})}}); // a bytea is laid out as a text
    salt = read_salt(day);
    writing.end();
    if (!salt)
        ereport(ERROR, (errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
                        errmsg("could not read the salt of the day that another transaction is making")));
    return *salt;
}

} // namespace shortener
