-- Resolve: what a code means now. Plain SQL that Postgres takes into the calling query, read-only, with every name
-- and operator qualified because it is parsed under the caller's search_path.

CREATE FUNCTION serving_workspace(host text) RETURNS integer
    LANGUAGE c STABLE LEAKPROOF PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'shortener_serving_workspace';
COMMENT ON FUNCTION serving_workspace(text) IS
    'id of the workspace whose codes are served at the host of an HTTP Host header: that of the domain, otherwise shortener.default_workspace';

-- Postgres sets up each expression of a query anew for each call, so what takes more than one is a function in C.
CREATE FUNCTION live_status(
    redirect_status smallint, is_active boolean, deleted_at timestamptz, expires_at timestamptz, workspace_id integer) RETURNS integer
    LANGUAGE c STABLE PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'shortener_live_status';
COMMENT ON FUNCTION live_status(smallint, boolean, timestamptz, timestamptz, integer) IS
    'redirect status of a link that redirects now; NULL for any other';

CREATE FUNCTION missing_status(host text, code text) RETURNS integer
    LANGUAGE c STABLE PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'shortener_missing_status';
COMMENT ON FUNCTION missing_status(text, text) IS
    'status of a code that no link has: 410 if it was, or may have been, that of a link that has been removed, otherwise 404';

CREATE FUNCTION cache_seconds(link_id bigint, live_status integer, expires_at timestamptz) RETURNS integer
    LANGUAGE c STABLE PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'shortener_cache_seconds';
COMMENT ON FUNCTION cache_seconds(bigint, integer, timestamptz) IS
    'for how many seconds caches may keep the answer; link_id is NULL for an unknown code';

CREATE FUNCTION resolve_installed(code text, host text, installed boolean) RETURNS TABLE (
    http_status integer, location text, cache_seconds integer, link_id bigint, workspace_id bigint, expires_at timestamptz)
    LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT CASE WHEN l.id IS NULL THEN shortener.missing_status(resolve_installed.host, resolve_installed.code)
                ELSE coalesce(l.live_status, 410) END,
           CASE WHEN l.live_status IS NOT NULL THEN l.original_url END,
           shortener.cache_seconds(l.id, l.live_status, l.expires_at),
           l.id,
           coalesce(l.workspace_id, shortener.serving_workspace(resolve_installed.host))::bigint,
           l.expires_at
    FROM (VALUES (true)) AS one (row)
    LEFT JOIN (SELECT k.id, k.workspace_id, k.short_code, k.original_url, k.expires_at,
                      shortener.live_status(k.redirect_status, k.is_active, k.deleted_at, k.expires_at, k.workspace_id) AS live_status
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
    'what a code means now: a redirect status with its location, 404 for unknown, 410 for gone, and for how many seconds the answer may be cached';

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
    'the same as resolve() for each code, with the host at the same position; one row per code, in order';
