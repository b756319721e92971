-- Workspaces, their domains and texts, and what no link may lead to.

CREATE FUNCTION random_key() RETURNS bytea
    LANGUAGE c VOLATILE PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'shortener_random_key';
COMMENT ON FUNCTION random_key() IS '16 bytes from a strong random source';

CREATE FUNCTION host_key(host text) RETURNS text
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'shortener_host_key';
COMMENT ON FUNCTION host_key(text) IS
    'host of an HTTP Host header as the domain table has it: lower case, without port and trailing dot';

CREATE FUNCTION host_of(host text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- A URL would otherwise be read as the host "https", and a network as its first address.
    IF host ~ '[/\\?#@]' OR host LIKE '.%' THEN
        RAISE '"%" is not a host', host USING ERRCODE = 'invalid_parameter_value',
            HINT = 'Give the host alone, such as go.example.com, without scheme and path.';
    END IF;
    RETURN shortener.host_key(split_part(shortener.canonical_url('http://' || host), '/', 3));
END $$;
COMMENT ON FUNCTION host_of(text) IS 'host that a person wrote, as URLs have it: Punycode, lower case, without port and trailing dot';

CREATE FUNCTION notification_key() RETURNS bytea
    LANGUAGE c STABLE PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'shortener_notification_key';
COMMENT ON FUNCTION notification_key() IS 'key of the tags in notifications on channel shortener';
REVOKE EXECUTE ON FUNCTION notification_key() FROM PUBLIC;

CREATE FUNCTION workspace_id(workspace text) RETURNS integer
    LANGUAGE plpgsql STABLE PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    wanted text;
    found integer;
BEGIN
    PERFORM shortener.require_install(); -- also loads the library, which defines the setting
    wanted := coalesce(workspace, current_setting('shortener.default_workspace'));
    SELECT id INTO found FROM shortener.workspace WHERE slug = wanted;
    IF found IS NULL THEN
        RAISE 'workspace "%" does not exist', wanted USING ERRCODE = 'undefined_object';
    END IF;
    RETURN found;
END $$;
COMMENT ON FUNCTION workspace_id(text) IS 'id of a workspace; NULL means shortener.default_workspace';

CREATE FUNCTION create_workspace(
    slug text,
    name text = NULL,
    code_style text = 'scrambled',
    rules text[] = '{sort_query,strip_tracking,strip_trailing_slash,unify_scheme}',
    default_ttl interval = NULL,
    redirect_status integer = 302) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    new_id integer;
BEGIN
    PERFORM shortener.require_install();
    PERFORM shortener.normalize_url('http://example.com/', rules); -- refuses unknown rules
    INSERT INTO shortener.workspace (slug, name, code_style, rules, default_ttl, redirect_status)
        VALUES (create_workspace.slug, coalesce(create_workspace.name, create_workspace.slug), create_workspace.code_style,
                create_workspace.rules, create_workspace.default_ttl, create_workspace.redirect_status)
        RETURNING id INTO new_id;
    INSERT INTO shortener.workspace_key (workspace_id, key) VALUES (new_id, shortener.random_key());
    RETURN new_id;
END $$;
COMMENT ON FUNCTION create_workspace(text, text, text, text[], interval, integer) IS
    'makes a workspace, with a secret of its own for codes and digests, and gives its id';

CREATE FUNCTION add_domain(host text, workspace text = NULL) RETURNS void
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM shortener.require_install();
    INSERT INTO shortener.domain (host, workspace_id)
        VALUES (shortener.host_of(add_domain.host), shortener.workspace_id(workspace));
END $$;
COMMENT ON FUNCTION add_domain(text, text) IS
    'makes a host ours: it serves the codes of the workspace, and no link may lead to it';

CREATE FUNCTION block_host(pattern text, reason text = NULL) RETURNS void
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM shortener.require_install();
    INSERT INTO shortener.blocked_host AS b (pattern, reason)
        VALUES (CASE WHEN block_host.pattern LIKE '*.%' THEN '*.' || shortener.host_of(substr(block_host.pattern, 3))
                     ELSE shortener.host_of(block_host.pattern) END, block_host.reason)
        ON CONFLICT ON CONSTRAINT blocked_host_pkey DO UPDATE SET reason = excluded.reason;
END $$;
COMMENT ON FUNCTION block_host(text, text) IS
    'refuses new links to a host, or to every host below a domain: *.example.com';

CREATE FUNCTION set_page_texts(not_found_text text, gone_text text, workspace text = NULL) RETURNS void
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM shortener.require_install();
    UPDATE shortener.workspace w
        SET not_found_text = set_page_texts.not_found_text, gone_text = set_page_texts.gone_text
        WHERE w.id = shortener.workspace_id(workspace);
END $$;
COMMENT ON FUNCTION set_page_texts(text, text, text) IS
    'texts of a workspace''s 404 and 410 pages; NULL is the built-in one';

CREATE FUNCTION page_texts(workspace_id bigint) RETURNS TABLE (not_found_text text, gone_text text)
    LANGUAGE plpgsql STABLE PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM shortener.require_install();
    RETURN QUERY SELECT w.not_found_text, w.gone_text FROM shortener.workspace w WHERE w.id = page_texts.workspace_id;
END $$;
COMMENT ON FUNCTION page_texts(bigint) IS 'texts of a workspace''s 404 and 410 pages; NULL is the built-in one';
