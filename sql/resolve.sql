-- Resolve: what a code means now. Plain SQL that Postgres takes into the calling query, read-only, with every name
-- and operator qualified because it is parsed under the caller's search_path.

CREATE FUNCTION serving_workspace(host text) RETURNS integer
    LANGUAGE c STABLE LEAKPROOF PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'shortener_serving_workspace';
COMMENT ON FUNCTION serving_workspace(text) IS
    'id of the workspace whose codes are served at the host of an HTTP Host header: that of the domain, otherwise shortener.default_workspace';

CREATE FUNCTION is_serving(workspace_id integer) RETURNS boolean
    LANGUAGE c STABLE PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'shortener_is_serving';
COMMENT ON FUNCTION is_serving(integer) IS 'whether the workspace is there and has not been deleted';

CREATE FUNCTION is_retired(workspace_id integer, code text) RETURNS boolean
    LANGUAGE c STABLE PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'shortener_is_retired';
COMMENT ON FUNCTION is_retired(integer, text) IS 'whether the code was that of a link that has been removed';

CREATE FUNCTION resolve_installed(code text, host text, installed boolean) RETURNS TABLE (
    http_status integer, location text, cache_seconds integer, link_id bigint, workspace_id bigint, expires_at timestamptz)
    LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT CASE WHEN l.id IS NULL THEN
                    CASE WHEN shortener.is_retired(shortener.serving_workspace(resolve_installed.host), resolve_installed.code)
                         THEN 410 ELSE 404 END
                WHEN l.is_live THEN l.redirect_status::integer
                ELSE 410 END,
           CASE WHEN l.is_live THEN l.original_url END,
           CASE WHEN l.id IS NULL THEN 60
                WHEN NOT l.is_live THEN 3600
                WHEN l.expires_at IS NULL THEN 300
                ELSE least(300, pg_catalog.floor(pg_catalog.date_part('epoch',
                    l.expires_at OPERATOR(pg_catalog.-) pg_catalog.statement_timestamp())))::integer
           END,
           l.id,
           coalesce(l.workspace_id, shortener.serving_workspace(resolve_installed.host))::bigint,
           l.expires_at
    FROM (VALUES (true)) AS one (row)
    LEFT JOIN (SELECT k.id, k.workspace_id, k.short_code, k.original_url, k.redirect_status, k.expires_at,
                      k.is_active AND k.deleted_at IS NULL
                      AND (k.expires_at IS NULL OR k.expires_at OPERATOR(pg_catalog.>) pg_catalog.statement_timestamp())
                      AND shortener.is_serving(k.workspace_id) AS is_live
               FROM shortener.link k) l
        ON l.workspace_id OPERATOR(pg_catalog.=) shortener.serving_workspace(resolve_installed.host)
       AND l.short_code OPERATOR(pg_catalog.=) resolve_installed.code
$$;
COMMENT ON FUNCTION resolve_installed(text, text, boolean) IS 'resolve(), once the tables are known to be there';

CREATE FUNCTION resolve(code text, host text = NULL) RETURNS TABLE (
    http_status integer, location text, cache_seconds integer, link_id bigint, workspace_id bigint, expires_at timestamptz)
    LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT * FROM shortener.resolve_installed(resolve.code, resolve.host, shortener.require_install())
$$;
COMMENT ON FUNCTION resolve(text, text) IS
    'what a code means now: a redirect status with its location, 404 for unknown, 410 for gone, and for how many seconds the answer may be kept';

CREATE FUNCTION resolve_many(codes text[], hosts text[] = NULL) RETURNS TABLE (
    http_status integer, location text, cache_seconds integer, link_id bigint, workspace_id bigint, expires_at timestamptz)
    LANGUAGE sql STABLE PARALLEL SAFE ROWS 64
AS $$
    -- The arrays are read as unnest reads them, whatever their dimensions and bounds.
    SELECT r.*
    FROM ROWS FROM (pg_catalog.unnest(resolve_many.codes), pg_catalog.unnest(resolve_many.hosts))
        WITH ORDINALITY AS i (code, host, ordinal)
    CROSS JOIN LATERAL shortener.resolve_installed(i.code, i.host, shortener.require_install()) r
    WHERE i.ordinal OPERATOR(pg_catalog.<=) pg_catalog.cardinality(resolve_many.codes)
    ORDER BY i.ordinal
$$;
COMMENT ON FUNCTION resolve_many(text[], text[]) IS
    'resolve() of each code at the host of the same place, one row per code, in order';
