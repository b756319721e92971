-- Links: create-or-get, changes, lists.

CREATE FUNCTION shorten(url text, workspace text = NULL) RETURNS text
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'shortener_shorten';
COMMENT ON FUNCTION shorten(text, text) IS
    'code of the URL in the workspace: the one it has, or a new one; NULL for NULL';

CREATE FUNCTION create_link(
    url text,
    alias text = NULL,
    expires_at timestamptz = NULL,
    redirect_status integer = NULL,
    title text = NULL,
    description text = NULL,
    metadata jsonb = NULL,
    created_ip inet = NULL,
    reuse boolean = true,
    workspace text = NULL,
    OUT short_code text,
    OUT short_url text,
    OUT original_url text,
    OUT expires_at timestamptz,
    OUT created boolean)
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'shortener_create_link';
COMMENT ON FUNCTION create_link(text, text, timestamptz, integer, text, text, jsonb, inet, boolean, text) IS
    'create-or-get with all properties; with an alias, or reuse => false, always a link of its own';

CREATE FUNCTION shorten_many(urls text[], workspace text = NULL)
    RETURNS TABLE (ordinal bigint, url text, short_code text, created boolean, error text)
    LANGUAGE c VOLATILE PARALLEL UNSAFE ROWS 1000
    AS 'MODULE_PATHNAME', 'shortener_shorten_many';
COMMENT ON FUNCTION shorten_many(text[], text) IS
    'the same as shorten() for each URL, one row per URL, in order; a URL that is refused has an error instead of a code, and the others get theirs';

CREATE FUNCTION update_link(
    code text,
    url text = NULL,
    expires_at timestamptz = NULL,
    redirect_status integer = NULL,
    title text = NULL,
    description text = NULL,
    metadata jsonb = NULL,
    workspace text = NULL) RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'shortener_update_link';
COMMENT ON FUNCTION update_link(text, text, timestamptz, integer, text, text, jsonb, text) IS
    'changes what is not NULL; expires_at infinity means never, an empty title or description removes it; false when there is no such link';

CREATE FUNCTION disable_link(code text, workspace text = NULL) RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'shortener_disable_link';
COMMENT ON FUNCTION disable_link(text, text) IS 'makes a link answer 410 until enable_link; false when there is no such link';

CREATE FUNCTION enable_link(code text, workspace text = NULL) RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'shortener_enable_link';
COMMENT ON FUNCTION enable_link(text, text) IS 'undoes disable_link; false when there is no such link';

CREATE FUNCTION delete_link(code text, workspace text = NULL) RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'shortener_delete_link';
COMMENT ON FUNCTION delete_link(text, text) IS
    'makes a link answer 410 forever; its URL gets a new code when it is shortened again; false when there is no such link';

CREATE TYPE link_details AS (
    link_id bigint, short_code text, short_url text, original_url text, title text, description text, metadata jsonb,
    redirect_status integer, is_active boolean, created_by text, created_ip inet, created_at timestamptz,
    updated_at timestamptz, expires_at timestamptz);
COMMENT ON TYPE link_details IS 'a link as get_link, list_links and search_links show it';

CREATE FUNCTION describe_links(workspace_id integer, ids bigint[]) RETURNS SETOF link_details
    LANGUAGE plpgsql STABLE PARALLEL RESTRICTED ROWS 50
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN QUERY SELECT l.id, l.short_code::text, 'https://' || d.host || '/' || l.short_code, l.original_url, l.title, l.description,
            l.metadata, l.redirect_status::integer, l.is_active, l.created_by, l.created_ip, l.created_at,
            coalesce(l.updated_at, l.created_at), l.expires_at
        FROM unnest(describe_links.ids) WITH ORDINALITY AS i (id, place)
        CROSS JOIN LATERAL (SELECT * FROM shortener.link k WHERE k.workspace_id = describe_links.workspace_id AND k.id = i.id OFFSET 0) l
        CROSS JOIN (SELECT min(o.host) FROM shortener.domain o WHERE o.workspace_id = describe_links.workspace_id) d (host)
        ORDER BY i.place;
END $$;
COMMENT ON FUNCTION describe_links(integer, bigint[]) IS 'behind get_link, list_links and search_links: these links, in this order';

CREATE FUNCTION get_link(code text, workspace text = NULL) RETURNS SETOF link_details
    LANGUAGE plpgsql STABLE PARALLEL RESTRICTED ROWS 1
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    wanted constant integer := shortener.workspace_id(workspace);
BEGIN
    RETURN QUERY SELECT * FROM shortener.describe_links(wanted, ARRAY(
        SELECT l.id FROM shortener.link l
        WHERE l.workspace_id = wanted AND l.short_code = code AND l.deleted_at IS NULL));
END $$;
COMMENT ON FUNCTION get_link(text, text) IS 'a link with all its properties; no row when there is no such link or it was deleted';

CREATE FUNCTION check_max_rows(max_rows integer) RETURNS void
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF max_rows < 0 THEN
        RAISE 'max_rows must not be negative' USING ERRCODE = 'invalid_parameter_value', HINT = 'NULL means all rows.';
    END IF;
END $$;
COMMENT ON FUNCTION check_max_rows(integer) IS 'refuses a negative number of rows';

CREATE FUNCTION list_links(workspace text = NULL, max_rows integer = 50, before timestamptz = NULL, before_id bigint = NULL,
                           tag text = NULL)
    RETURNS SETOF link_details
    LANGUAGE plpgsql STABLE PARALLEL RESTRICTED ROWS 50
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    wanted constant integer := shortener.workspace_id(workspace);
BEGIN
    PERFORM shortener.check_max_rows(max_rows);
    -- Pages go by id: the links of one transaction share created_at, so a time would lose some between two pages.
    RETURN QUERY SELECT * FROM shortener.describe_links(wanted, ARRAY(
        SELECT l.id FROM shortener.link l
        WHERE l.workspace_id = wanted AND l.deleted_at IS NULL
          AND l.id < coalesce(before_id, 9223372036854775807)
          AND l.created_at < coalesce(before, 'infinity')
          AND (list_links.tag IS NULL OR EXISTS (SELECT FROM shortener.link_tag t
               WHERE t.workspace_id = wanted AND t.tag = list_links.tag AND t.link_id = l.id))
        ORDER BY l.id DESC
        LIMIT max_rows));
END $$;
COMMENT ON FUNCTION list_links(text, integer, timestamptz, bigint, text) IS
    'links of a workspace, newest first; if asked for, only those created before a time, or those with a tag; before_id => link_id of the last row returns the next page';

CREATE FUNCTION search_links(query text, workspace text = NULL, max_rows integer = 50) RETURNS SETOF link_details
    LANGUAGE plpgsql STABLE PARALLEL RESTRICTED ROWS 50
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    wanted constant integer := shortener.workspace_id(workspace);
BEGIN
    PERFORM shortener.check_max_rows(max_rows);
    IF octet_length(query) > 1000 THEN -- the parser of queries recurses, and hears no cancel
        RAISE 'a search query must have at most 1000 bytes' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN QUERY SELECT * FROM shortener.describe_links(wanted, ARRAY(
        SELECT l.id
        FROM (SELECT f.*, to_tsvector('pg_catalog.simple', coalesce(f.title, '') || ' ' || coalesce(f.description, '')) AS words
              FROM shortener.link f WHERE f.title IS NOT NULL OR f.description IS NOT NULL) l,
             websearch_to_tsquery('pg_catalog.simple', query) q
        WHERE l.workspace_id = wanted AND l.deleted_at IS NULL AND l.words @@ q
        ORDER BY ts_rank(l.words, q) DESC, l.id DESC
        LIMIT max_rows));
END $$;
COMMENT ON FUNCTION search_links(text, text, integer) IS
    'links whose title and description have the words of a web search query, best first';
