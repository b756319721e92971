// Functions that make and change one link at a time.

#include "pg/accepted_url.h"
#include "pg/guard.h"
#include "pg/installation.h"
#include "pg/link_code.h"
#include "pg/link_url.h"
#include "pg/plans.h"
#include "pg/session.h"
#include "pg/text.h"
#include "pg/used_codes.h"

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

using Value = std::optional<Datum>; // none: NULL

// The properties of a link that somebody asks for.
struct LinkRequest {
    const Workspace* workspace;
    const CheckedUrl* url;
    Value digest;           // none: a link of its own
    std::string_view alias; // no data: a generated code
    TimestampTz expires_at; // DT_NOEND: never
    int16 redirect_status;
    Value title, description, metadata, created_by, created_ip;
};

struct Link {
    int64 id;
    Code code;
    Datum original_url;
    TimestampTz expires_at;
    bool created;
};

Value expiry_value(TimestampTz time) {
    return time == DT_NOEND ? std::nullopt : Value(TimestampTzGetDatum(time));
}

// Of a row with id, short_code, original_url, expires_at.
Link link_of(const Row& row, bool created) {
    return {row.required<int64>(1), Code::from(row.required<std::string_view>(2)), row.required<Datum>(3),
            row.get<TimestampTz>(4).value_or(DT_NOEND), created};
}

bool find_link(const LinkRequest& request, Link& link) {
    static KeptStatement statement("SELECT id, short_code, original_url, expires_at FROM shortener.link "
                                   "WHERE workspace_id OPERATOR(pg_catalog.=) $workspace"
                                   " AND url_digest OPERATOR(pg_catalog.=) $digest AND deleted_at IS NULL",
                                   {{"workspace", INT4OID}, {"digest", BYTEAOID}});
    const Rows rows =
        statement.run({{"workspace", Int32GetDatum(request.workspace->id)}, {"digest", request.digest}});
    if (rows.empty()) {
        rows.release();
        return false;
    }
    link = link_of(rows[0], false);
    return true;
}

// Makes the link live as long as was asked; false when it changed meanwhile.
bool extend_link(const LinkRequest& request, Link& link) {
    static KeptStatement statement(
        "UPDATE shortener.link SET expires_at = $expires_at "
        "WHERE workspace_id OPERATOR(pg_catalog.=) $workspace AND id OPERATOR(pg_catalog.=) $id"
        " AND url_digest OPERATOR(pg_catalog.=) $digest AND deleted_at IS NULL"
        " AND expires_at OPERATOR(pg_catalog.<) coalesce($expires_at, 'infinity') "
        "RETURNING id, short_code, original_url, expires_at",
        {{"workspace", INT4OID}, {"id", INT8OID}, {"digest", BYTEAOID}, {"expires_at", TIMESTAMPTZOID}});
    const Rows rows = statement.run({{"workspace", Int32GetDatum(request.workspace->id)},
                                     {"id", Int64GetDatum(link.id)},
                                     {"digest", request.digest},
                                     {"expires_at", expiry_value(request.expires_at)}});
    if (rows.empty()) {
        rows.release();
        return false;
    }
    link = link_of(rows[0], false);
    return true;
}

// Runs a statement that stores this URL, which has been checked.
Rows store_url(const Workspace& workspace, const CheckedUrl& url, std::string_view new_code,
               KeptStatement& statement, std::initializer_list<Argument> arguments) {
    const AcceptedUrl accepted{url.href, url.digest, new_code};
    Rows rows(nullptr, 0);
    store_accepted({workspace.id, &accepted, 1}, [&] { rows = statement.run(arguments); });
    return rows;
}

// False when the code or the digest is taken already. What is stored may be other than what was asked for, by
// a trigger.
bool insert_link(const LinkRequest& request, int64 id, const Code& code, Link& link) {
    static KeptStatement statement(
        "INSERT INTO shortener.link (id, workspace_id, short_code, original_url, url_digest, redirect_status,"
        " expires_at, title, description, metadata, created_by, created_ip) "
        "VALUES ($id, $workspace, $code, $url, $digest, $redirect_status,"
        " $expires_at, $title, $description, $metadata, $created_by, $created_ip) "
        "ON CONFLICT DO NOTHING RETURNING id, short_code, original_url, expires_at",
        {{"id", INT8OID},
         {"workspace", INT4OID},
         {"code", TEXTOID},
         {"url", TEXTOID},
         {"digest", BYTEAOID},
         {"redirect_status", INT2OID},
         {"expires_at", TIMESTAMPTZOID},
         {"title", TEXTOID},
         {"description", TEXTOID},
         {"metadata", JSONBOID},
         {"created_by", TEXTOID},
         {"created_ip", INETOID}});
    const Rows rows = store_url(
        *request.workspace, *request.url,
        request.alias.data() ? std::string_view() : unguessable(*request.workspace, code), statement,
        {{"id", Int64GetDatum(id)},
         {"workspace", Int32GetDatum(request.workspace->id)},
         {"code", text_datum(code.view())},
         {"url", text_datum(request.url->href)},
         {"digest", request.digest},
         {"redirect_status", Int16GetDatum(request.redirect_status)},
         {"expires_at", expiry_value(request.expires_at)},
         {"title", request.title},
         {"description", request.description},
         {"metadata", request.metadata},
         {"created_by", request.created_by},
         {"created_ip", request.created_ip}});
    if (rows.empty()) {
        rows.release();
        return false;
    }
    link = link_of(rows[0], true);
    return true;
}

Link create_alias(const LinkRequest& request) {
    const CodeStyle style = request.workspace->code_style;
    const Code code = Code::from(request.alias);
    for (int attempt = 1, hidden = 0; attempt <= max_attempts; attempt++) {
        const int64 id = offer_id(style);
        if (Link link; insert_link(request, id, code, link)) {
            spend_id(style, id);
            return link;
        }
        if (is_any_code_taken(*request.workspace, &code, 1))
            raise(LinkError::taken_code, code.view());
        if (is_any_id_taken(*request.workspace, &id, 1))
            spend_id(style, id);
        else if (++hidden == max_hidden_attempts)
            raise_hidden(code.view());
        CHECK_FOR_INTERRUPTS();
    }
    raise_no_free_code();
}

// Looks first, because an insert that loses burns work; then inserts; and when that met another link, looks
// again with a new snapshot. What it met may be the same URL, made by another session, or only the same code,
// as somebody's alias: then the next number has a free one. Above READ COMMITTED Postgres raises 40001 by
// itself when the other session's link is newer than the transaction.
Link create_or_get(const LinkRequest& request) {
    const CodeStyle style = request.workspace->code_style;
    Link link;
    Code code; // refused by the last insert
    int64 id = -1;
    for (int attempt = 1, hidden = 0; attempt <= max_attempts; attempt++) {
        if (request.digest && find_link(request, link)) {
            if (request.expires_at <= link.expires_at || extend_link(request, link))
                return link;
            hidden++;
        } else {
            if (id >= 0) {
                hidden += !is_any_code_taken(*request.workspace, &code, 1) &&
                          !is_any_id_taken(*request.workspace, &id, 1);
                spend_id(style, id);
            }
            id = offer_id(style);
            code = code_of(*request.workspace, id);
            if (bool is_used = false; find_used_codes(*request.workspace, &code, &id, 1, &is_used)) {
                spend_id(style, id);
                id = -1;
                continue;
            }
            if (insert_link(request, id, code, link)) {
                spend_id(style, id);
                return link;
            }
        }
        if (hidden == max_hidden_attempts)
            raise_hidden(request.url->href);
        CHECK_FOR_INTERRUPTS();
    }
    raise_no_free_code();
}

std::string_view optional_text(FunctionCallInfo fcinfo, int index) {
    return PG_ARGISNULL(index) ? std::string_view() : text_argument(fcinfo, index);
}

Value optional_value(FunctionCallInfo fcinfo, int index) {
    return PG_ARGISNULL(index) ? std::nullopt : Value(PG_GETARG_DATUM(index));
}

// The end of a link's life as given to a function; an error in the past.
std::optional<TimestampTz> optional_expiry(FunctionCallInfo fcinfo, int index) {
    if (PG_ARGISNULL(index))
        return std::nullopt;
    const TimestampTz expiry = PG_GETARG_TIMESTAMPTZ(index);
    if (expiry <= GetCurrentStatementStartTimestamp())
        raise(LinkError::expiry_in_past, timestamptz_to_str(expiry));
    return expiry;
}

std::optional<int16> optional_status(FunctionCallInfo fcinfo, int index) {
    if (PG_ARGISNULL(index))
        return std::nullopt;
    const int32 status = PG_GETARG_INT32(index);
    if (status != 301 && status != 302 && status != 307 && status != 308)
        raise(LinkError::unknown_redirect_status, psprintf("%d", status));
    return static_cast<int16>(status);
}

// A URL that may become a link; an error otherwise.
CheckedUrl accept_url(const Workspace& workspace, std::string_view given) {
    CheckedUrl url = check_url(workspace, given);
    if (!url.refused())
        check_hosts(&url, 1);
    if (url.refused())
        raise_refusal(url, given);
    return url;
}

// The address of a code at the first of the workspace's domains.
Value short_url(const Workspace& workspace, std::string_view code) {
    static KeptStatement statement(
        "SELECT 'https://' OPERATOR(pg_catalog.||) pg_catalog.min(host) OPERATOR(pg_catalog.||) '/'"
        " OPERATOR(pg_catalog.||) $code FROM shortener.domain"
        " WHERE workspace_id OPERATOR(pg_catalog.=) $workspace",
        {{"workspace", INT4OID}, {"code", TEXTOID}});
    const Rows rows = statement.run({{"workspace", Int32GetDatum(workspace.id)}, {"code", text_datum(code)}});
    return rows[0].get<Datum>(1);
}

} // namespace

SHORTENER_FUNCTION(shortener_shorten) {
    require_install();
    if (PG_ARGISNULL(0))
        PG_RETURN_NULL();
    SPI_connect();
    const Workspace workspace = find_workspace(optional_text(fcinfo, 1));
    const CheckedUrl url = accept_url(workspace, text_argument(fcinfo, 0));
    LinkRequest request{};
    request.workspace = &workspace;
    request.url = &url;
    request.digest = digest_datum(url.digest);
    request.expires_at = workspace.default_expiry();
    request.redirect_status = workspace.redirect_status;
    request.created_by = creating_user();
    const Code code = create_or_get(request).code;
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
        raise(LinkError::null_url);
    const std::string_view alias = optional_text(fcinfo, 1);
    if (alias.data() && !is_code(alias))
        raise(LinkError::malformed_alias, alias);
    const bool reuse = PG_ARGISNULL(8) || PG_GETARG_BOOL(8);

    const MemoryContext caller = CurrentMemoryContext;
    SPI_connect();
    const Workspace workspace = find_workspace(optional_text(fcinfo, 9));
    const CheckedUrl url = accept_url(workspace, text_argument(fcinfo, 0));
    LinkRequest request{};
    request.workspace = &workspace;
    request.url = &url;
    if (!alias.data() && reuse)
        request.digest = digest_datum(url.digest);
    request.alias = alias;
    request.expires_at = optional_expiry(fcinfo, 2).value_or(workspace.default_expiry());
    request.redirect_status = optional_status(fcinfo, 3).value_or(workspace.redirect_status);
    request.title = optional_value(fcinfo, 4);
    request.description = optional_value(fcinfo, 5);
    request.metadata = optional_value(fcinfo, 6);
    request.created_ip = optional_value(fcinfo, 7);
    request.created_by = creating_user().value_or(CStringGetTextDatum(GetUserNameFromId(GetUserId(), false)));
    const Link link = alias.data() ? create_alias(request) : create_or_get(request);

    const Value address = short_url(workspace, link.code.view());
    const Datum values[] = {text_datum(link.code.view()), address.value_or(0), link.original_url,
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
        "UPDATE shortener.link SET original_url = coalesce($url, original_url),"
        " url_digest = CASE WHEN $url IS NULL OR url_digest OPERATOR(pg_catalog.=) $digest THEN url_digest "
        "END,"
        " expires_at = CASE WHEN $expires_at IS NULL THEN expires_at"
        "  WHEN pg_catalog.isfinite($expires_at) THEN $expires_at END,"
        " redirect_status = coalesce($redirect_status, redirect_status),"
        " title = CASE WHEN $title IS NULL THEN title"
        "  WHEN $title OPERATOR(pg_catalog.<>) '' THEN $title END,"
        " description = CASE WHEN $description IS NULL THEN description"
        "  WHEN $description OPERATOR(pg_catalog.<>) '' THEN $description END,"
        " metadata = coalesce($metadata, metadata) "
        "WHERE workspace_id OPERATOR(pg_catalog.=) $workspace AND short_code OPERATOR(pg_catalog.=) $code"
        " AND deleted_at IS NULL",
        {{"workspace", INT4OID},
         {"code", TEXTOID},
         {"url", TEXTOID},
         {"digest", BYTEAOID},
         {"expires_at", TIMESTAMPTZOID},
         {"redirect_status", INT2OID},
         {"title", TEXTOID},
         {"description", TEXTOID},
         {"metadata", JSONBOID}});
    SPI_connect();
    const Workspace workspace = find_workspace(optional_text(fcinfo, 7));
    require_scope("links:write");
    const bool moves = !PG_ARGISNULL(1);
    const CheckedUrl url = moves ? accept_url(workspace, text_argument(fcinfo, 1)) : CheckedUrl{};
    const std::optional<TimestampTz> expires_at = optional_expiry(fcinfo, 2);
    const std::optional<int16> status = optional_status(fcinfo, 3);
    const Rows rows =
        store_url(workspace, url, {}, statement,
                  {{"workspace", Int32GetDatum(workspace.id)},
                   {"code", PG_GETARG_DATUM(0)},
                   {"url", moves ? Value(text_datum(url.href)) : std::nullopt},
                   {"digest", moves ? Value(digest_datum(url.digest)) : std::nullopt},
                   {"expires_at", expires_at ? Value(TimestampTzGetDatum(*expires_at)) : std::nullopt},
                   {"redirect_status", status ? Value(Int16GetDatum(*status)) : std::nullopt},
                   {"title", optional_value(fcinfo, 4)},
                   {"description", optional_value(fcinfo, 5)},
                   {"metadata", optional_value(fcinfo, 6)}});
    const bool found = !rows.empty();
    SPI_finish();
    PG_RETURN_BOOL(found);
}

namespace {

enum class State { disabled, enabled, deleted };

Datum change_state(FunctionCallInfo fcinfo, State state) {
    require_install();
    if (PG_ARGISNULL(0))
        PG_RETURN_BOOL(false);
    static KeptStatement statement(
        "UPDATE shortener.link SET is_active = coalesce($is_active, is_active), deleted_at = $deleted_at "
        "WHERE workspace_id OPERATOR(pg_catalog.=) $workspace AND short_code OPERATOR(pg_catalog.=) $code"
        " AND deleted_at IS NULL",
        {{"workspace", INT4OID}, {"code", TEXTOID}, {"is_active", BOOLOID}, {"deleted_at", TIMESTAMPTZOID}});
    const bool is_deleted = state == State::deleted;
    SPI_connect();
    const Workspace workspace = find_workspace(optional_text(fcinfo, 1));
    require_scope("links:write");
    const Rows rows = statement.run(
        {{"workspace", Int32GetDatum(workspace.id)},
         {"code", PG_GETARG_DATUM(0)},
         {"is_active", is_deleted ? std::nullopt : Value(BoolGetDatum(state == State::enabled))},
         {"deleted_at",
          is_deleted ? Value(TimestampTzGetDatum(GetCurrentTransactionStartTimestamp())) : std::nullopt}});
    const bool found = !rows.empty();
    SPI_finish();
    PG_RETURN_BOOL(found);
}

} // namespace

SHORTENER_FUNCTION(shortener_disable_link) {
    return change_state(fcinfo, State::disabled);
}

SHORTENER_FUNCTION(shortener_enable_link) {
    return change_state(fcinfo, State::enabled);
}

SHORTENER_FUNCTION(shortener_delete_link) {
    return change_state(fcinfo, State::deleted);
}
