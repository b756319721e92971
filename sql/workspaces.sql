-- Workspaces, their domains and texts, and what no link may lead to.

CREATE FUNCTION random_key() RETURNS bytea
    LANGUAGE c VOLATILE PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'shortener_random_key';
COMMENT ON FUNCTION random_key() IS '16 bytes from a strong random source';

CREATE FUNCTION host_from_header(host text) RETURNS text
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'shortener_host_from_header';
COMMENT ON FUNCTION host_from_header(text) IS
    'host of an HTTP Host header as the table domain has it: lower case, without port and trailing dot';

CREATE FUNCTION canonical_host(host text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    canonical text;
BEGIN
    IF octet_length(host) <= 4 * 253 THEN
        -- A URL would otherwise be read as the host "https", and a network as its first address.
        IF host ~ '[/\\?#@]' OR host LIKE '.%' THEN
            RAISE '"%" is not a host', left(host, 64) USING ERRCODE = 'invalid_parameter_value',
                HINT = 'Give the host alone, such as go.example.com, without scheme and path.';
        END IF;
        canonical := shortener.host_from_header(split_part(shortener.canonical_url('http://' || host), '/', 3));
    END IF;
    IF canonical IS NULL OR octet_length(canonical) > 253 THEN
        RAISE 'host "%" is too long', left(host, 64) USING ERRCODE = 'invalid_parameter_value',
            DETAIL = 'A host has at most 253 characters.';
    END IF;
    RETURN canonical;
END $$;
COMMENT ON FUNCTION canonical_host(text) IS
    'host as a person writes it, in the form that it has in canonical URLs: Punycode, lower case, without port and trailing dot';

CREATE FUNCTION notification_key() RETURNS bytea
    LANGUAGE c STABLE PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'shortener_notification_key';
COMMENT ON FUNCTION notification_key() IS 'key of the tags in notifications on channel shortener';
REVOKE EXECUTE ON FUNCTION notification_key() FROM PUBLIC;

CREATE FUNCTION workspace_id(workspace text) RETURNS integer
    LANGUAGE c STABLE PARALLEL RESTRICTED
    AS 'MODULE_PATHNAME', 'shortener_workspace_id';
COMMENT ON FUNCTION workspace_id(text) IS 'id of a workspace in which the caller may work; NULL means current_workspace_id()';

-- The constraints of the tables decide what is valid; this says what they mean.
CREATE FUNCTION raise_invalid(constraint_name text, value text) RETURNS void
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    message text;
    explanation text;
BEGIN
    SELECT e.message, e.explanation INTO message, explanation FROM (VALUES
        ('workspace_slug_check', 'workspace slug "%s" is not valid',
         'A slug has 1 to 63 lower-case letters, digits and hyphens, and neither starts nor ends with a hyphen.'),
        ('workspace_code_style_check', 'code style "%s" is not valid', 'The code styles are scrambled, sequential and snowflake.'),
        ('workspace_redirect_status_check', 'redirect status %s is not valid', 'The redirect statuses are 301, 302, 307 and 308.'),
        ('workspace_default_ttl_check', 'default_ttl "%s" is not valid', 'It must be positive, and at most 1000 years.'),
        ('domain_host_check', '"%s" is not valid as a domain', 'A domain is one host, such as go.example.com.'),
        ('blocked_host_pattern_check', '"%s" is not valid as a pattern of hosts',
         'A pattern is a host, such as evil.example, or *.evil.example for all hosts below it.')
    ) e (name, message, explanation) WHERE e.name = constraint_name;
    IF NOT FOUND THEN -- one of the user's own
        RAISE '"%" violates check constraint "%"', left(value, 64), left(constraint_name, 64) USING ERRCODE = 'check_violation';
    END IF;
    RAISE '%', format(message, left(value, 64)) USING ERRCODE = 'check_violation', DETAIL = explanation;
END $$;
COMMENT ON FUNCTION raise_invalid(text, text) IS 'raises the error for a value that a constraint of the tables has refused';

CREATE FUNCTION raise_invalid_workspace(state text, constraint_name text, slug text, code_style text, default_ttl interval,
                                        redirect_status integer) RETURNS void
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    CASE state
        WHEN '23505' THEN
            RAISE 'workspace "%" already exists', left(slug, 64) USING ERRCODE = 'unique_violation';
        WHEN '22003' THEN -- it does not fit into the column
            PERFORM shortener.raise_invalid('workspace_redirect_status_check', redirect_status::text);
        ELSE
            PERFORM shortener.raise_invalid(constraint_name, CASE constraint_name
                WHEN 'workspace_code_style_check' THEN code_style
                WHEN 'workspace_redirect_status_check' THEN redirect_status::text
                WHEN 'workspace_default_ttl_check' THEN default_ttl::text
                ELSE slug END);
    END CASE;
END $$;
COMMENT ON FUNCTION raise_invalid_workspace(text, text, text, text, interval, integer) IS
    'raises the error for a property of a workspace that the table has refused with that SQLSTATE and constraint';

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
    violated text;
BEGIN
    PERFORM shortener.require_install();
    IF slug IS NULL OR code_style IS NULL OR rules IS NULL OR redirect_status IS NULL THEN
        RAISE 'slug, code_style, rules and redirect_status must not be null' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    PERFORM shortener.normalize_url('http://example.com/', rules); -- refuses unknown rules
    BEGIN
        INSERT INTO shortener.workspace (slug, name, code_style, rules, default_ttl, redirect_status)
            VALUES (create_workspace.slug, coalesce(create_workspace.name, create_workspace.slug), create_workspace.code_style,
                    create_workspace.rules, create_workspace.default_ttl, create_workspace.redirect_status)
            RETURNING id INTO new_id;
    EXCEPTION WHEN check_violation OR unique_violation OR numeric_value_out_of_range THEN
        GET STACKED DIAGNOSTICS violated = CONSTRAINT_NAME;
        PERFORM shortener.raise_invalid_workspace(SQLSTATE, violated, slug, code_style, default_ttl, redirect_status);
    END;
    INSERT INTO shortener.workspace_key (workspace_id, key) VALUES (new_id, shortener.random_key());
    RETURN new_id;
END $$;
COMMENT ON FUNCTION create_workspace(text, text, text, text[], interval, integer) IS
    'creates a workspace, with a secret of its own for codes and digests, and returns its id';

CREATE FUNCTION add_domain(host text, workspace text = NULL) RETURNS void
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    new_host constant text := shortener.canonical_host(host);
    violated text;
BEGIN
    PERFORM shortener.require_install();
    IF new_host IS NULL THEN
        RAISE 'host must not be null' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    INSERT INTO shortener.domain (host, workspace_id) VALUES (new_host, shortener.workspace_id(workspace));
EXCEPTION
    WHEN check_violation THEN
        GET STACKED DIAGNOSTICS violated = CONSTRAINT_NAME;
        PERFORM shortener.raise_invalid(violated, host);
    WHEN unique_violation THEN
        RAISE 'domain "%" already belongs to a workspace', new_host USING ERRCODE = 'unique_violation';
END $$;
COMMENT ON FUNCTION add_domain(text, text) IS
    'adds a host of this shortener: it serves the codes of the workspace, and no link may lead to it';

CREATE FUNCTION block_host(pattern text, reason text = NULL) RETURNS void
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    new_pattern constant text := CASE WHEN pattern LIKE '*.%' THEN '*.' || shortener.canonical_host(substr(pattern, 3))
                                      ELSE shortener.canonical_host(pattern) END;
    violated text;
BEGIN
    PERFORM shortener.require_install();
    IF new_pattern IS NULL THEN
        RAISE 'pattern must not be null' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    INSERT INTO shortener.blocked_host AS b (pattern, reason) VALUES (new_pattern, block_host.reason)
        ON CONFLICT ON CONSTRAINT blocked_host_pkey DO UPDATE SET reason = excluded.reason;
EXCEPTION WHEN check_violation THEN
    GET STACKED DIAGNOSTICS violated = CONSTRAINT_NAME;
    PERFORM shortener.raise_invalid(violated, pattern);
END $$;
COMMENT ON FUNCTION block_host(text, text) IS
    'refuses new links to a host, or to every host below a domain: *.example.com';

CREATE FUNCTION reserve_code(code text) RETURNS void
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM shortener.require_install();
    IF code IS NULL THEN
        RAISE 'code must not be null' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    IF octet_length(code) > 50 OR code !~ '^[A-Za-z0-9_-]+$' THEN
        RAISE '"%" cannot be a code', left(code, 64) USING ERRCODE = 'invalid_parameter_value',
            DETAIL = 'A code has 1 to 50 characters of A-Z, a-z, 0-9, _ and -.';
    END IF;
    INSERT INTO shortener.reserved_code (code) VALUES (lower(reserve_code.code)) ON CONFLICT DO NOTHING;
END $$;
COMMENT ON FUNCTION reserve_code(text) IS 'refuses a word as a code of new links, in any case of letters';

CREATE FUNCTION set_page_texts(not_found_text text, gone_text text, workspace text = NULL) RETURNS void
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM shortener.require_install();
    PERFORM shortener.require_scope('admin');
    UPDATE shortener.workspace w
        SET not_found_text = set_page_texts.not_found_text, gone_text = set_page_texts.gone_text
        WHERE w.id = shortener.workspace_id(workspace);
END $$;
COMMENT ON FUNCTION set_page_texts(text, text, text) IS
    'texts of a workspace''s 404 and 410 pages; NULL is the built-in one';

CREATE FUNCTION page_texts(workspace_id bigint) RETURNS TABLE (not_found_text text, gone_text text)
    LANGUAGE plpgsql STABLE PARALLEL RESTRICTED
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM shortener.require_install();
    RETURN QUERY SELECT w.not_found_text, w.gone_text FROM shortener.workspace w WHERE w.id = page_texts.workspace_id;
END $$;
COMMENT ON FUNCTION page_texts(bigint) IS 'texts of a workspace''s 404 and 410 pages; NULL is the built-in one';
