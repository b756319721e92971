-- Resolve: what a code means now. Plain SQL that Postgres takes into the calling query, read-only, with every name
-- and operator qualified because it is parsed under the caller's search_path.

CREATE FUNCTION resolve_installed(code text, host text, installed boolean) RETURNS TABLE (
    http_status integer, location text, cache_seconds integer, link_id bigint, workspace_id bigint, expires_at timestamptz)
    LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT a.http_status,
           CASE WHEN a.http_status OPERATOR(pg_catalog.<) 400 THEN l.original_url END,
           CASE WHEN a.http_status OPERATOR(pg_catalog.=) 404 THEN 60
                WHEN a.http_status OPERATOR(pg_catalog.=) 410 THEN 3600
                WHEN l.expires_at IS NULL THEN 300
                ELSE least(300, pg_catalog.floor(pg_catalog.date_part('epoch',
                    l.expires_at OPERATOR(pg_catalog.-) pg_catalog.statement_timestamp())))::integer
           END,
           l.id, w.id::bigint, l.expires_at
    FROM (SELECT coalesce((SELECT d.workspace_id FROM shortener.domain d
                           WHERE d.host OPERATOR(pg_catalog.=) shortener.host_from_header(resolve_installed.host)),
                          (SELECT s.id FROM shortener.workspace s
                           WHERE s.slug OPERATOR(pg_catalog.=) pg_catalog.current_setting('shortener.default_workspace'))) AS id
          OFFSET 0) w -- a fence: what is inside is computed once
    LEFT JOIN shortener.link l
        ON l.workspace_id OPERATOR(pg_catalog.=) w.id AND l.short_code OPERATOR(pg_catalog.=) resolve_installed.code
    CROSS JOIN LATERAL (SELECT CASE
        WHEN l.id IS NULL THEN
            CASE WHEN EXISTS (SELECT FROM shortener.retired_code r
                              WHERE r.workspace_id OPERATOR(pg_catalog.=) w.id
                                AND r.short_code OPERATOR(pg_catalog.=) resolve_installed.code)
                 THEN 410 ELSE 404 END
        WHEN l.is_active AND l.deleted_at IS NULL
             AND (l.expires_at IS NULL OR l.expires_at OPERATOR(pg_catalog.>) pg_catalog.statement_timestamp())
             AND NOT EXISTS (SELECT FROM shortener.workspace g
                             WHERE g.id OPERATOR(pg_catalog.=) w.id AND g.deleted_at IS NOT NULL)
            THEN l.redirect_status::integer
        ELSE 410 END AS http_status
        OFFSET 0) a
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
