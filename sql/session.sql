-- Who is at work. The state is memory of the backend, which parallel workers do not have: hence PARALLEL RESTRICTED.

CREATE FUNCTION authenticate(api_key text, for_session boolean = false) RETURNS text
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'shortener_authenticate';
COMMENT ON FUNCTION authenticate(text, boolean) IS
    'makes the workspace of the API key the current one until the end of the transaction, or of the session, and returns its slug';

CREATE FUNCTION current_workspace_id() RETURNS integer
    LANGUAGE c STABLE PARALLEL RESTRICTED
    AS 'MODULE_PATHNAME', 'shortener_current_workspace_id';
COMMENT ON FUNCTION current_workspace_id() IS
    'id of the workspace that functions use when none is named; NULL: none';

CREATE FUNCTION permitted_workspace(scope text) RETURNS integer
    LANGUAGE c STABLE STRICT PARALLEL RESTRICTED
    AS 'MODULE_PATHNAME', 'shortener_permitted_workspace';
COMMENT ON FUNCTION permitted_workspace(text) IS
    'the same as current_workspace_id() if the API key in use has the scope, or if none is in use; NULL otherwise';

CREATE FUNCTION require_scope(scope text) RETURNS void
    LANGUAGE c STABLE STRICT PARALLEL RESTRICTED
    AS 'MODULE_PATHNAME', 'shortener_require_scope';
COMMENT ON FUNCTION require_scope(text) IS 'an error unless the API key in use has the scope, or none is in use';

CREATE FUNCTION current_workspace() RETURNS text
    LANGUAGE sql STABLE PARALLEL RESTRICTED
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT w.slug FROM shortener.workspace w WHERE w.id = shortener.current_workspace_id()
$$;
COMMENT ON FUNCTION current_workspace() IS 'slug of the workspace that functions use when none is named; NULL: none';

CREATE FUNCTION current_user_id() RETURNS bigint
    LANGUAGE c STABLE PARALLEL RESTRICTED
    AS 'MODULE_PATHNAME', 'shortener_current_user_id';
COMMENT ON FUNCTION current_user_id() IS 'id of the user whose API key is in use; NULL: none';

CREATE FUNCTION current_api_key() RETURNS text
    LANGUAGE c STABLE PARALLEL RESTRICTED
    AS 'MODULE_PATHNAME', 'shortener_current_api_key';
COMMENT ON FUNCTION current_api_key() IS 'display prefix of the API key in use; NULL: none';

CREATE FUNCTION current_scopes() RETURNS text[]
    LANGUAGE c STABLE PARALLEL RESTRICTED
    AS 'MODULE_PATHNAME', 'shortener_current_scopes';
COMMENT ON FUNCTION current_scopes() IS 'scopes of the API key in use; all scopes when none is in use';

REVOKE EXECUTE ON FUNCTION authenticate(text, boolean) FROM PUBLIC;
