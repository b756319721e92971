// shorten, create_link and update_link: one link at a time.

#include "pg/link_store.h"

#include "pg/accepted_url.h"
#include "pg/guard.h"
#include "pg/plans.h"
#include "pg/text.h"

extern "C" {
#include "access/xact.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
}

using namespace shortener;

namespace {

// What is asked for. Datums of zero are NULL.
struct Wish {
    const Workspace* workspace;
    std::string_view href;
    Datum digest;           // zero: a link of its own
    std::string_view code;  // no data: a generated one
    TimestampTz expires_at; // DT_NOEND: never
    int16 redirect_status;
    Datum title, description, metadata, created_by, created_ip;
};

struct Link {
    int64 id;
    Code code;
    Datum original_url;
    TimestampTz expires_at;
    bool created;
};

constexpr ErrorText malformed_alias = {ERRCODE_INVALID_PARAMETER_VALUE, "alias \"%s\" is no short code",
                                       "A code has 1 to 50 characters of A-Z, a-z, 0-9, _ and -.", nullptr};
constexpr ErrorText taken_alias = {ERRCODE_UNIQUE_VIOLATION, "short code \"%s\" is taken", nullptr,
                                   "Choose another alias."};

Datum timestamp_or_null(TimestampTz time, char& null) {
    null = time == DT_NOEND ? 'n' : ' ';
    return TimestampTzGetDatum(time);
}

// The row of the last result: id, short_code, original_url, expires_at.
Link link_of_result() {
    bool is_null;
    Link link{};
    link.id = DatumGetInt64(result_value(0, 1, is_null));
    link.code = Code::from(text_view(result_value(0, 2, is_null)));
    link.original_url = result_value(0, 3, is_null);
    const Datum expiry = result_value(0, 4, is_null);
    link.expires_at = is_null ? DT_NOEND : DatumGetTimestampTz(expiry);
    return link;
}

// Runs `store`, whose statement stores this URL, which has been checked.
template <typename Store>
void store_accepted_url(int32 workspace_id, std::string_view href, Datum digest, Store&& store) {
    AcceptedUrl url{href, {}};
    if (digest)
        text_view(digest).copy(reinterpret_cast<char*>(url.digest.bytes), digest_size);
    store_accepted({workspace_id, &url, 1}, store);
}

bool find(const Wish& wish, Link& link) {
    static KeptStatement statement("SELECT id, short_code, original_url, expires_at FROM shortener.link "
                                   "WHERE workspace_id OPERATOR(pg_catalog.=) $1"
                                   " AND url_digest OPERATOR(pg_catalog.=) $2 AND deleted_at IS NULL",
                                   {INT4OID, BYTEAOID});
    const Datum values[] = {Int32GetDatum(wish.workspace->id), wish.digest};
    statement.run(values);
    if (SPI_processed == 0)
        return false;
    link = link_of_result();
    return true;
}

// Makes the link live as long as was asked; false when it changed meanwhile.
bool extend(const Wish& wish, Link& link) {
    static KeptStatement statement(
        "UPDATE shortener.link SET expires_at = $3 "
        "WHERE workspace_id OPERATOR(pg_catalog.=) $1 AND id OPERATOR(pg_catalog.=) $2"
        " AND url_digest OPERATOR(pg_catalog.=) $4 AND deleted_at IS NULL"
        " AND expires_at OPERATOR(pg_catalog.<) coalesce($3, 'infinity') "
        "RETURNING id, short_code, original_url, expires_at",
        {INT4OID, INT8OID, TIMESTAMPTZOID, BYTEAOID});
    char nulls[] = "    ";
    const Datum values[] = {Int32GetDatum(wish.workspace->id), Int64GetDatum(link.id),
                            timestamp_or_null(wish.expires_at, nulls[2]), wish.digest};
    statement.run(values, nulls);
    if (SPI_processed == 0)
        return false;
    link = link_of_result();
    return true;
}

// False when the code or the digest is taken already, or when a generated code is reserved or retired. Those
// of an alias are for the trigger to refuse.
bool insert(const Wish& wish, int64 id, std::string_view code, Link& link) {
    static KeptStatement statement(
        "INSERT INTO shortener.link (id, workspace_id, short_code, original_url, url_digest, redirect_status,"
        " expires_at, title, description, metadata, created_by, created_ip) "
        "SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12 "
        "WHERE $13 OR NOT ("
        " EXISTS (SELECT FROM shortener.reserved_code r WHERE r.code OPERATOR(pg_catalog.=) "
        "pg_catalog.lower($3 COLLATE pg_catalog.\"C\"))"
        " OR EXISTS (SELECT FROM shortener.retired_code r WHERE r.workspace_id OPERATOR(pg_catalog.=) $2"
        " AND r.short_code OPERATOR(pg_catalog.=) $3)) "
        "ON CONFLICT DO NOTHING",
        {INT8OID, INT4OID, TEXTOID, TEXTOID, BYTEAOID, INT2OID, TIMESTAMPTZOID, TEXTOID, TEXTOID, JSONBOID,
         TEXTOID, INETOID, BOOLOID});
    const Datum url = text_datum(wish.href);
    Datum values[] = {Int64GetDatum(id),
                      Int32GetDatum(wish.workspace->id),
                      text_datum(code),
                      url,
                      wish.digest,
                      Int16GetDatum(wish.redirect_status),
                      TimestampTzGetDatum(wish.expires_at),
                      wish.title,
                      wish.description,
                      wish.metadata,
                      wish.created_by,
                      wish.created_ip,
                      BoolGetDatum(wish.code.data() != nullptr)};
    char nulls[] = "             ";
    for (const int nullable : {4, 7, 8, 9, 10, 11})
        if (!values[nullable])
            nulls[nullable] = 'n';
    if (wish.expires_at == DT_NOEND)
        nulls[6] = 'n';
    store_accepted_url(wish.workspace->id, wish.href, wish.digest, [&] { statement.run(values, nulls); });
    if (SPI_processed == 0)
        return false;
    link = Link{id, Code::from(code), url, wish.expires_at, true};
    return true;
}

Link create_alias(const Wish& wish) {
    const CodeStyle style = wish.workspace->code_style;
    const int64 id = offer_id(style);
    Link link;
    if (!insert(wish, id, wish.code, link))
        raise_error(taken_alias, wish.code);
    spend_id(style, id);
    return link;
}

// Create-or-get. Looks first, because an insert that loses burns work; then inserts; and when that met
// another link, looks again with a new snapshot. What it met may be the same URL, made by another session, or
// only the same code, as somebody's alias: then the next number has a free one. Above READ COMMITTED Postgres
// raises 40001 by itself when the other session's link is newer than the transaction.
Link obtain(const Wish& wish) {
    const CodeStyle style = wish.workspace->code_style;
    Link link;
    int64 id = -1; // refused by the last insert
    for (int attempt = 1;; attempt++) {
        if (attempt > max_attempts)
            raise_no_free_code();
        if (wish.digest && find(wish, link)) {
            if (wish.expires_at <= link.expires_at || extend(wish, link))
                return link;
        } else {
            if (id >= 0)
                spend_id(style, id); // its code is taken
            id = offer_id(style);
            if (insert(wish, id, code_of(*wish.workspace, id).view(), link)) {
                spend_id(style, id);
                return link;
            }
        }
        CHECK_FOR_INTERRUPTS();
    }
}

std::string_view optional_text(FunctionCallInfo fcinfo, int index) {
    return PG_ARGISNULL(index) ? std::string_view() : text_argument(fcinfo, index);
}

// The wanted end of a link's life as given to a function: the default for NULL, an error in the past.
TimestampTz wanted_expiry(FunctionCallInfo fcinfo, int index, TimestampTz otherwise) {
    if (PG_ARGISNULL(index))
        return otherwise;
    const TimestampTz expiry = PG_GETARG_TIMESTAMPTZ(index);
    if (expiry <= GetCurrentStatementStartTimestamp())
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("expires_at \"%s\" is in the past", timestamptz_to_str(expiry)),
                        errhint("Give a time to come, or 'infinity' for never.")));
    return expiry;
}

int16 wanted_status(FunctionCallInfo fcinfo, int index, int16 otherwise) {
    if (PG_ARGISNULL(index))
        return otherwise;
    const int32 status = PG_GETARG_INT32(index);
    if (status != 301 && status != 302 && status != 307 && status != 308)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("redirect_status %d is not one of 301, 302, 307 and 308", status)));
    return static_cast<int16>(status);
}

// A URL that may become a link of the workspace, which is looked up on the way; an error otherwise.
CheckedUrl accept_url(std::string_view given, std::string_view slug, Workspace& workspace) {
    CheckedUrl url = check_url(given);
    if (url.refused())
        raise_refusal(url, given);
    Datum* patterns = nullptr;
    int count = 0, capacity = 0;
    append_host_patterns(url, patterns, count, capacity);
    workspace = find_workspace(slug, patterns, count);
    if (workspace.has_refused_host) {
        check_hosts(&url, 1, patterns, count);
        if (url.refused())
            raise_refusal(url, given);
    }
    return url;
}

// The address of a code at the first of the workspace's domains; zero when it has none.
Datum short_url(const Workspace& workspace, std::string_view code) {
    static KeptStatement statement(
        "SELECT 'https://' OPERATOR(pg_catalog.||) pg_catalog.min(host) OPERATOR(pg_catalog.||) '/'"
        " OPERATOR(pg_catalog.||) $2 FROM shortener.domain WHERE workspace_id OPERATOR(pg_catalog.=) $1",
        {INT4OID, TEXTOID});
    const Datum values[] = {Int32GetDatum(workspace.id), text_datum(code)};
    statement.run(values);
    bool is_null;
    const Datum url = result_value(0, 1, is_null);
    return is_null ? 0 : url;
}

} // namespace

SHORTENER_FUNCTION(shortener_shorten) {
    require_install();
    if (PG_ARGISNULL(0))
        PG_RETURN_NULL();
    const std::string_view given = text_argument(fcinfo, 0), slug = optional_text(fcinfo, 1);
    SPI_connect();
    Workspace workspace;
    const CheckedUrl url = accept_url(given, slug, workspace);
    Wish wish{};
    wish.workspace = &workspace;
    wish.href = url.href;
    wish.digest = digest_datum(digest_of(workspace, url));
    wish.expires_at = workspace.default_expiry;
    wish.redirect_status = workspace.redirect_status;
    const Code code = obtain(wish).code;
    SPI_finish();
    PG_RETURN_DATUM(text_datum(code.view()));
}

SHORTENER_FUNCTION(shortener_create_link) {
    require_install();
    TupleDesc description;
    if (get_call_result_type(fcinfo, nullptr, &description) != TYPEFUNC_COMPOSITE)
        elog(ERROR, "return type must be a row type");
    description = BlessTupleDesc(description);
    if (PG_ARGISNULL(0))
        raise_error(error_text(LinkError::no_url), "");
    const std::string_view given = text_argument(fcinfo, 0), alias = optional_text(fcinfo, 1);
    if (alias.data() && !is_code(alias))
        raise_error(malformed_alias, alias);
    const bool reuse = PG_ARGISNULL(8) || PG_GETARG_BOOL(8);

    const MemoryContext caller = CurrentMemoryContext;
    SPI_connect();
    Workspace workspace;
    const CheckedUrl url = accept_url(given, optional_text(fcinfo, 9), workspace);
    Wish wish{};
    wish.workspace = &workspace;
    wish.href = url.href;
    wish.digest = alias.data() || !reuse ? 0 : digest_datum(digest_of(workspace, url));
    wish.code = alias;
    wish.expires_at = wanted_expiry(fcinfo, 2, workspace.default_expiry);
    wish.redirect_status = wanted_status(fcinfo, 3, workspace.redirect_status);
    wish.title = PG_ARGISNULL(4) ? 0 : PG_GETARG_DATUM(4);
    wish.description = PG_ARGISNULL(5) ? 0 : PG_GETARG_DATUM(5);
    wish.metadata = PG_ARGISNULL(6) ? 0 : PG_GETARG_DATUM(6);
    wish.created_ip = PG_ARGISNULL(7) ? 0 : PG_GETARG_DATUM(7);
    wish.created_by = CStringGetTextDatum(GetUserNameFromId(GetSessionUserId(), false));
    const Link link = alias.data() ? create_alias(wish) : obtain(wish);

    const Datum address = short_url(workspace, link.code.view());
    const Datum values[] = {text_datum(link.code.view()), address, link.original_url,
                            TimestampTzGetDatum(link.expires_at), BoolGetDatum(link.created)};
    const bool nulls[] = {false, !address, false, link.expires_at == DT_NOEND, false};
    MemoryContextSwitchTo(caller);
    HeapTuple row = heap_form_tuple(description, const_cast<Datum*>(values), const_cast<bool*>(nulls));
    SPI_finish();
    PG_RETURN_DATUM(HeapTupleGetDatum(row));
}

// NULL leaves a property as it is; 'infinity' takes an expiry away, an empty text a title or description. A
// link that leads elsewhere than before is a link of its own from then on: create-or-get gives its code for
// neither URL.
SHORTENER_FUNCTION(shortener_update_link) {
    require_install();
    if (PG_ARGISNULL(0))
        PG_RETURN_BOOL(false);
    static KeptStatement statement(
        "UPDATE shortener.link SET original_url = coalesce($3, original_url),"
        " url_digest = CASE WHEN $3 IS NULL OR url_digest OPERATOR(pg_catalog.=) $4 THEN url_digest END,"
        " expires_at = CASE WHEN $5 IS NULL THEN expires_at"
        "  WHEN pg_catalog.isfinite($5) THEN $5 END,"
        " redirect_status = coalesce($6, redirect_status),"
        " title = CASE WHEN $7 IS NULL THEN title WHEN $7 OPERATOR(pg_catalog.<>) '' THEN $7 END,"
        " description = CASE WHEN $8 IS NULL THEN description WHEN $8 OPERATOR(pg_catalog.<>) '' THEN $8 END,"
        " metadata = coalesce($9, metadata) "
        "WHERE workspace_id OPERATOR(pg_catalog.=) $1 AND short_code OPERATOR(pg_catalog.=) $2"
        " AND deleted_at IS NULL",
        {INT4OID, TEXTOID, TEXTOID, BYTEAOID, TIMESTAMPTZOID, INT2OID, TEXTOID, TEXTOID, JSONBOID});

    SPI_connect();
    Workspace workspace;
    Datum values[9] = {};
    char nulls[] = "  nnnnnnn";
    const std::string_view slug = optional_text(fcinfo, 7);
    if (PG_ARGISNULL(1)) {
        workspace = find_workspace(slug, nullptr, 0);
    } else {
        const CheckedUrl url = accept_url(text_argument(fcinfo, 1), slug, workspace);
        values[2] = text_datum(url.href);
        values[3] = digest_datum(digest_of(workspace, url));
        nulls[2] = nulls[3] = ' ';
    }
    values[0] = Int32GetDatum(workspace.id);
    values[1] = PG_GETARG_DATUM(0);
    if (!PG_ARGISNULL(2)) {
        values[4] = TimestampTzGetDatum(wanted_expiry(fcinfo, 2, DT_NOEND));
        nulls[4] = ' ';
    }
    if (!PG_ARGISNULL(3)) {
        values[5] = Int16GetDatum(wanted_status(fcinfo, 3, 0));
        nulls[5] = ' ';
    }
    for (int i = 4; i <= 6; i++)
        if (!PG_ARGISNULL(i)) {
            values[i + 2] = PG_GETARG_DATUM(i);
            nulls[i + 2] = ' ';
        }
    const std::string_view href = values[2] ? text_view(values[2]) : std::string_view();
    store_accepted_url(workspace.id, href, values[3], [&] { statement.run(values, nulls); });
    const bool found = SPI_processed > 0;
    SPI_finish();
    PG_RETURN_BOOL(found);
}
