-- What a database role may do: exactly what one of four jobs needs.

CREATE FUNCTION access_rights() RETURNS TABLE (capability text, kind text, object text, privileges text, columns text)
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT c.capability, r.kind, o.object, r.privileges, r.columns
    FROM (VALUES
        ('{redirector,writer,analyst,admin}', 'schema', '{shortener}', 'USAGE', NULL),
        -- resolve, page_texts, and hearing of changes
        ('{redirector}', 'table', '{link}', 'SELECT',
            'id, workspace_id, short_code, original_url, redirect_status, is_active, deleted_at, expires_at'),
        ('{redirector}', 'table', '{workspace}', 'SELECT', 'id, slug, not_found_text, gone_text'),
        ('{redirector,writer,analyst,admin}', 'table', '{domain}', 'SELECT', NULL),
        ('{writer,analyst,admin}', 'table', '{retired_code,retired_number}', 'SELECT', NULL),
        ('{redirector}', 'function', '{notification_key,record_clicks,record_unknown_codes}', 'EXECUTE', NULL),
        ('{redirector}', 'table', '{click_batch,click_event}', 'INSERT', NULL),
        ('{redirector}', 'table', '{user_agent,referrer,place,unknown_code}', 'SELECT, INSERT, UPDATE', NULL),
        -- clicks
        ('{analyst,admin}', 'table', '{click_event,click_hour,click_day,click_month,click_day_breakdown,click_month_breakdown,'
            'click_total,unknown_code,user_agent,referrer,place,click_details,link_totals,daily_click_stats}', 'SELECT', NULL),
        -- reading
        ('{writer,analyst,admin}', 'function', '{authenticate}', 'EXECUTE', NULL),
        ('{writer,analyst,admin}', 'table', '{workspace,link,link_tag,active_links,link_overview,workspace_settings}', 'SELECT', NULL),
        -- links
        ('{writer,admin}', 'table', '{link}', 'INSERT, UPDATE', NULL),
        ('{writer,admin}', 'table', '{link_tag}', 'INSERT, DELETE', NULL),
        ('{writer,admin}', 'table', '{reserved_code}', 'SELECT', NULL),
        ('{writer,admin}', 'sequence', '{link_id_seq}', 'USAGE', NULL),
        -- the workspace, its users and API keys
        ('{admin}', 'table', '{workspace}', 'UPDATE',
            'name, code_style, rules, default_ttl, redirect_status, not_found_text, gone_text'),
        ('{admin}', 'table', '{link_archive,link_audit,api_keys}', 'SELECT', NULL),
        ('{admin}', 'table', '{workspace_user}', 'SELECT, INSERT, UPDATE', NULL),
        ('{admin}', 'table', '{user_password}', 'SELECT', 'workspace_id, user_id'),
        ('{admin}', 'table', '{user_password}', 'INSERT, UPDATE, DELETE', NULL),
        ('{admin}', 'table', '{api_key}', 'SELECT',
            'workspace_id, id, user_id, prefix, name, scopes, rate_limit, created_at, expires_at, revoked_at'),
        ('{admin}', 'table', '{api_key}', 'INSERT, DELETE', NULL),
        ('{admin}', 'table', '{api_key}', 'UPDATE', 'name, scopes, rate_limit, expires_at, revoked_at'),
        ('{admin}', 'table', '{api_key_use}', 'SELECT, INSERT', NULL),
        ('{admin}', 'function', '{create_user,sync_user,set_password,verify_password,set_user_status,delete_user,user_id,'
            'check_password,hash_password,create_api_key,revoke_api_key,update_workspace}', 'EXECUTE', NULL)
    ) r (capabilities, kind, objects, privileges, columns)
    CROSS JOIN unnest(r.capabilities::text[]) c (capability)
    CROSS JOIN unnest(r.objects::text[]) o (object)
$$;
COMMENT ON FUNCTION access_rights() IS 'what grant_access grants for each capability; columns NULL: the whole table';

-- The same for the objects that are there, as GRANT and REVOKE want it.
CREATE FUNCTION access_commands(capability text)
    RETURNS TABLE (kind text, object_id oid, object text, privileges text)
    LANGUAGE sql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT r.kind, o.id, o.name, r.privileges || coalesce(' (' || r.columns || ')', '')
    FROM shortener.access_rights() r
    CROSS JOIN LATERAL (
        SELECT n.oid AS id, 'SCHEMA shortener' AS name FROM pg_namespace n WHERE r.kind = 'schema' AND n.nspname = r.object
        UNION ALL
        SELECT c.oid, format('%s shortener.%I', CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, c.relname)
        FROM pg_class c
        WHERE r.kind IN ('table', 'sequence') AND c.relnamespace = 'shortener'::regnamespace AND c.relname = r.object
          AND CASE r.kind WHEN 'sequence' THEN c.relkind = 'S' ELSE c.relkind IN ('r', 'p', 'v') END
        UNION ALL
        SELECT p.oid, 'ROUTINE ' || p.oid::regprocedure::text
        FROM pg_proc p WHERE r.kind = 'function' AND p.pronamespace = 'shortener'::regnamespace AND p.proname = r.object) o
    WHERE r.capability = access_commands.capability
$$;
COMMENT ON FUNCTION access_commands(text) IS 'behind grant_access and revoke_access: the objects of a capability that are there';

CREATE FUNCTION apply_access(role name, capabilities text[]) RETURNS void
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    command record;
BEGIN
    FOR command IN
        SELECT DISTINCT c.kind, c.object_id, c.object, c.privileges
        FROM unnest(capabilities) w (capability) CROSS JOIN LATERAL shortener.access_commands(w.capability) c
        ORDER BY 1, 3
    LOOP
        EXECUTE format('GRANT %s ON %s TO %I', command.privileges, command.object, role);
        -- Whoever may not pass a privilege on gets no error from GRANT.
        IF command.kind = 'schema' AND NOT has_schema_privilege(role, command.object_id, 'USAGE')
            OR command.kind = 'function' AND NOT has_function_privilege(role, command.object_id, 'EXECUTE')
        THEN
            RAISE 'role "%" may not grant % on %', current_user, command.privileges, command.object
                USING ERRCODE = 'insufficient_privilege',
                HINT = format('As the owner of the extension: GRANT USAGE ON SCHEMA shortener TO %1$I WITH GRANT OPTION; '
                              'GRANT EXECUTE ON ALL ROUTINES IN SCHEMA shortener TO %1$I WITH GRANT OPTION;', current_user);
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION apply_access(name, text[]) IS 'step of grant_access and revoke_access';

-- A dump has the number of a role that is gone, and where it is restored that may be another role's.
CREATE PROCEDURE forget_dropped_roles()
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    DELETE FROM shortener.role_access a WHERE NOT EXISTS (SELECT FROM pg_roles r WHERE r.oid = a.role);
    -- Even a statement that removes nothing makes all sessions look up their workspaces again.
    IF EXISTS (SELECT FROM shortener.role_workspace b WHERE NOT EXISTS (SELECT FROM pg_roles r WHERE r.oid = b.role)) THEN
        DELETE FROM shortener.role_workspace b WHERE NOT EXISTS (SELECT FROM pg_roles r WHERE r.oid = b.role);
    END IF;
END $$;
COMMENT ON PROCEDURE forget_dropped_roles() IS 'step of install(), grant_access(), revoke_access(), bind_role() and unbind_role()';

CREATE PROCEDURE restore_access()
    LANGUAGE sql
    SET search_path = pg_catalog, pg_temp
AS $$
    CALL shortener.forget_dropped_roles();
    SELECT shortener.apply_access(r.rolname, array_agg(a.capability))
    FROM shortener.role_access a JOIN pg_roles r ON r.oid = a.role GROUP BY r.rolname
$$;
COMMENT ON PROCEDURE restore_access() IS 'step of install(): grants again what grant_access has granted; functions and tables may be new';

-- A redirector serves every workspace, by a policy of its own. One that named a function instead of roles would keep
-- Postgres from using indexes for everybody else.
CREATE FUNCTION apply_redirector_policies() RETURNS void
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    roles oid[];
    present oid[];
    list text;
    t text;
    command text;
BEGIN
    SELECT array_agg(r.oid ORDER BY r.oid), string_agg(quote_ident(r.rolname), ', ' ORDER BY r.oid) INTO roles, list
        FROM shortener.role_access a JOIN pg_roles r ON r.oid = a.role WHERE a.capability = 'redirector';
    FOR t, command IN
        SELECT unnest('{link,workspace,domain}'::text[]), 'SELECT'
        UNION ALL
        SELECT unnest('{click_event,user_agent,referrer,place,unknown_code}'::text[]), 'ALL'
    LOOP
        SELECT ARRAY(SELECT m FROM unnest(p.polroles) m ORDER BY m) INTO present
            FROM pg_policy p WHERE p.polrelid = ('shortener.' || t)::regclass AND p.polname = 'redirector';
        CONTINUE WHEN present IS NOT DISTINCT FROM roles;
        IF roles IS NULL THEN
            EXECUTE format('DROP POLICY redirector ON shortener.%I', t);
        ELSIF present IS NULL THEN
            EXECUTE format('CREATE POLICY redirector ON shortener.%I FOR %s TO %s USING (true)', t, command, list);
        ELSE
            EXECUTE format('ALTER POLICY redirector ON shortener.%I TO %s', t, list);
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION apply_redirector_policies() IS 'step of grant_access and revoke_access';

CREATE FUNCTION role_oid(role name) RETURNS oid
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    found oid;
BEGIN
    SELECT r.oid INTO found FROM pg_roles r WHERE r.rolname = role;
    IF found IS NULL THEN
        RAISE 'role "%" does not exist', role USING ERRCODE = 'undefined_object';
    END IF;
    RETURN found;
END $$;
COMMENT ON FUNCTION role_oid(name) IS 'OID of a role; an error when there is none';

CREATE FUNCTION bind_role(role name, workspace text) RETURNS void
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM shortener.require_owner();
    CALL shortener.forget_dropped_roles();
    INSERT INTO shortener.role_workspace AS b (role, workspace_id)
        VALUES (shortener.role_oid(bind_role.role),
                CASE WHEN workspace IS NOT NULL THEN shortener.workspace_id(workspace) END)
        ON CONFLICT ON CONSTRAINT role_workspace_pkey DO UPDATE SET workspace_id = excluded.workspace_id;
END $$;
COMMENT ON FUNCTION bind_role(name, text) IS
    'binds a database role, and those that inherit from it, to a workspace; NULL: to none, so that they have to authenticate';

CREATE FUNCTION unbind_role(role name) RETURNS boolean
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM shortener.require_owner();
    CALL shortener.forget_dropped_roles();
    DELETE FROM shortener.role_workspace b WHERE b.role = shortener.role_oid(unbind_role.role);
    RETURN FOUND;
END $$;
COMMENT ON FUNCTION unbind_role(name) IS 'undoes bind_role; false when the role was not bound';

CREATE FUNCTION grant_access(role name, capability text, workspace text = NULL) RETURNS void
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM shortener.require_owner();
    CALL shortener.forget_dropped_roles();
    IF capability IS NULL OR capability NOT IN ('redirector', 'writer', 'analyst', 'admin') THEN
        RAISE '"%" is not a valid capability', left(capability, 64) USING ERRCODE = 'invalid_parameter_value',
            HINT = 'The capabilities are redirector, writer, analyst and admin.';
    END IF;
    IF capability = 'redirector' AND workspace IS NOT NULL THEN
        RAISE 'a redirector cannot be bound to a workspace' USING ERRCODE = 'invalid_parameter_value',
            DETAIL = 'It serves every workspace.';
    END IF;
    INSERT INTO shortener.role_access AS a (role, capability)
        VALUES (shortener.role_oid(grant_access.role), grant_access.capability) ON CONFLICT DO NOTHING;
    PERFORM shortener.apply_access(role, ARRAY[capability]);
    IF capability = 'redirector' THEN
        PERFORM shortener.apply_redirector_policies();
    END IF;
    IF workspace IS NOT NULL THEN
        PERFORM shortener.bind_role(role, workspace);
    END IF;
END $$;
COMMENT ON FUNCTION grant_access(name, text, text) IS
    'grants a database role what a redirector, writer, analyst or admin needs; with a workspace, binds the role to it';

CREATE FUNCTION revoke_access(role name, capability text = NULL) RETURNS boolean
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    revoked boolean;
    command record;
BEGIN
    PERFORM shortener.require_owner();
    CALL shortener.forget_dropped_roles();
    DELETE FROM shortener.role_access a
        WHERE a.role = shortener.role_oid(revoke_access.role) AND a.capability = coalesce(revoke_access.capability, a.capability);
    revoked := FOUND;
    -- Capabilities overlap: all is revoked, and what the others need is granted again.
    FOR command IN
        SELECT DISTINCT c.object, c.privileges
        FROM (SELECT DISTINCT r.capability FROM shortener.access_rights() r) k
        CROSS JOIN LATERAL shortener.access_commands(k.capability) c
    LOOP
        EXECUTE format('REVOKE %s ON %s FROM %I', command.privileges, command.object, role);
    END LOOP;
    PERFORM shortener.apply_access(revoke_access.role, ARRAY(
        SELECT a.capability FROM shortener.role_access a WHERE a.role = shortener.role_oid(revoke_access.role)));
    PERFORM shortener.apply_redirector_policies();
    IF revoke_access.capability IS NULL THEN
        DELETE FROM shortener.role_workspace b WHERE b.role = shortener.role_oid(revoke_access.role);
    END IF;
    RETURN revoked;
END $$;
COMMENT ON FUNCTION revoke_access(name, text) IS
    'revokes one capability, or with NULL all of them and the binding to a workspace; false when there was none';

REVOKE EXECUTE ON PROCEDURE forget_dropped_roles(), restore_access() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION access_commands(text), apply_access(name, text[]), apply_redirector_policies(),
    role_oid(name), bind_role(name, text), unbind_role(name), grant_access(name, text, text), revoke_access(name, text)
    FROM PUBLIC;

-- After DROP EXTENSION ... CASCADE the tables are still there, and the functions are new. See install.sql for the owner.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_catalog.pg_class c
            WHERE c.relnamespace OPERATOR(pg_catalog.=) 'shortener'::pg_catalog.regnamespace
              AND c.relname OPERATOR(pg_catalog.=) 'role_access'::pg_catalog.name
              AND pg_catalog.pg_get_userbyid(c.relowner) OPERATOR(pg_catalog.=) current_user) THEN
        CALL shortener.restore_access();
    END IF;
END $$;
