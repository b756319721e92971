-- install(): makes the tables. They are made by a procedure, not by the script, so that they are the user's own: dumped,
-- replicated and kept by DROP EXTENSION ... CASCADE. Hence only built-in types, and only built-in functions in
-- constraints. Each topic has its file in sql/tables/, with up to three procedures: its tables, made once; its views
-- and its triggers, made anew by every install(), so that views have the columns of new versions. A view is replaced,
-- not dropped, because views of the user's own may depend on it: new columns go to its end.

CREATE FUNCTION require_install() RETURNS boolean
    LANGUAGE c IMMUTABLE PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'shortener_require_install';
COMMENT ON FUNCTION require_install() IS
    'true, or an error whose hint names install(); immutable, so that it is asked when a query is planned';

CREATE FUNCTION require_owner() RETURNS void
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    owner name;
BEGIN
    PERFORM shortener.require_install();
    SELECT pg_get_userbyid(c.relowner) INTO owner FROM pg_class c WHERE c.oid = 'shortener.installation'::regclass;
    IF owner <> current_user THEN
        RAISE 'must be the owner of the tables of shortener' USING ERRCODE = 'insufficient_privilege',
            HINT = format('Connect as role %I and call it there.', owner);
    END IF;
END $$;
COMMENT ON FUNCTION require_owner() IS 'raises an error unless the caller owns the tables, also for a superuser, who must not run what another owner has added to them';

-- A released version's step is never edited: a later one is added below it, with ALTER TABLE for what is there.
CREATE PROCEDURE create_tables()
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    CALL shortener.create_installation_tables();
    CALL shortener.create_workspace_tables();
    CALL shortener.create_link_tables();
    CALL shortener.create_expiry_tables();
    CALL shortener.create_click_tables();
    CALL shortener.make_click_partitions();
    CALL shortener.create_tag_tables();
    CALL shortener.create_access_tables();
    CALL shortener.create_audit_tables();
END $$;
COMMENT ON PROCEDURE create_tables() IS 'step of install(): version 1 of the tables';

CREATE PROCEDURE create_views()
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    CALL shortener.create_link_views();
    CALL shortener.create_expiry_views();
    CALL shortener.create_click_views();
    CALL shortener.create_access_views();
END $$;
COMMENT ON PROCEDURE create_views() IS 'step of install()';

CREATE PROCEDURE create_triggers()
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    CALL shortener.create_workspace_triggers();
    CALL shortener.create_link_triggers();
    CALL shortener.create_access_triggers();
    CALL shortener.create_audit_triggers();
    CALL shortener.create_policies();
END $$;
COMMENT ON PROCEDURE create_triggers() IS 'step of install(): triggers and policies';

-- Whoever calls install() runs what is in the schema, and gives away rights on it. So there must be nothing that another
-- role made, except what belongs to the extension or to a superuser.
CREATE FUNCTION require_own_schema() RETURNS void
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    extension_owner oid;
    schema_owner oid;
    table_owner name;
    foreign_object text;
BEGIN
    SELECT e.extowner, n.nspowner INTO extension_owner, schema_owner
        FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
        WHERE e.extname = 'shortener' AND n.nspname = 'shortener';
    IF schema_owner IS NULL OR NOT (schema_owner = extension_owner
            OR (SELECT r.rolsuper FROM pg_roles r WHERE r.oid = schema_owner)) THEN
        RAISE 'schema shortener does not belong to the owner of extension shortener'
            USING ERRCODE = 'insufficient_privilege';
    END IF;

    SELECT pg_get_userbyid(c.relowner) INTO table_owner FROM pg_class c
        WHERE c.relnamespace = 'shortener'::regnamespace AND c.relname = 'installation';
    IF table_owner <> current_user THEN
        RAISE 'the tables of shortener belong to role "%"', table_owner USING ERRCODE = 'insufficient_privilege',
            HINT = format('Call install() as role "%s".', table_owner);
    END IF;

    SELECT pg_describe_object(d.classid, d.objid, 0) || ' of role "' || r.rolname || '"' INTO foreign_object
        FROM pg_depend d
        JOIN pg_shdepend s ON s.classid = d.classid AND s.objid = d.objid AND s.deptype = 'o' AND s.refclassid = 'pg_authid'::regclass
            AND s.dbid = (SELECT b.oid FROM pg_database b WHERE b.datname = current_database())
        JOIN pg_roles r ON r.oid = s.refobjid
        WHERE d.refclassid = 'pg_namespace'::regclass AND d.refobjid = 'shortener'::regnamespace
          AND NOT r.rolsuper AND r.rolname <> current_user AND r.oid <> extension_owner
        ORDER BY d.classid, d.objid LIMIT 1;
    IF foreign_object IS NOT NULL THEN
        RAISE 'schema shortener contains %', foreign_object USING ERRCODE = 'insufficient_privilege',
            DETAIL = 'It must contain nothing that belongs to another role than the owner of the tables.';
    END IF;
END $$;
COMMENT ON FUNCTION require_own_schema() IS
    'raises an error if the schema, or something in it, belongs to a role that the caller need not trust';

CREATE FUNCTION derived_objects() RETURNS text
    LANGUAGE sql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT md5(string_agg(o.definition, E'\n' ORDER BY o.definition COLLATE "C"))
    FROM (SELECT p.prosrc
          FROM pg_proc p WHERE p.pronamespace = 'shortener'::regnamespace AND p.prokind = 'p' AND starts_with(p.proname, 'create_')
          UNION ALL
          SELECT 'view ' || c.relname || pg_get_viewdef(c.oid) || coalesce(c.reloptions::text, '')
          FROM pg_class c WHERE c.relnamespace = 'shortener'::regnamespace AND c.relkind = 'v' AND pg_get_userbyid(c.relowner) = current_user
          UNION ALL
          SELECT pg_get_triggerdef(t.oid)
          FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_proc p ON p.oid = t.tgfoid
          WHERE c.relnamespace = 'shortener'::regnamespace AND p.pronamespace = 'shortener'::regnamespace
          UNION ALL
          SELECT concat_ws(' ', 'policy', p.polname, p.polrelid::regclass, p.polcmd, p.polpermissive, p.polroles,
                           pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid))
          FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid WHERE c.relnamespace = 'shortener'::regnamespace
         ) o (definition)
$$;
COMMENT ON FUNCTION derived_objects() IS
    'fingerprint of the views, triggers and policies of the tables, and of the procedures that create them';

-- Creates what is missing or old. Locks the tables against writers, but does not let them wait for long behind it.
CREATE PROCEDURE bring_up_to_date()
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
    SET lock_timeout = '3s'
AS $$
DECLARE
    newest constant integer := shortener.schema_version();
    present integer := 0;
BEGIN
    IF to_regclass('shortener.installation') IS NOT NULL THEN
        LOCK TABLE shortener.installation IN SHARE UPDATE EXCLUSIVE MODE; -- one at a time
        PERFORM shortener.lock_for_job('{installation}'::text[]);
        SELECT schema_version INTO present FROM shortener.installation;
        IF NOT FOUND THEN -- made after this transaction took its snapshot
            RAISE 'another session has installed shortener meanwhile' USING ERRCODE = 'serialization_failure', HINT = 'Try again.';
        END IF;
    END IF;
    IF present > newest THEN
        RAISE 'the tables of shortener have version %, newer than % of this extension', present, newest
            USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'ALTER EXTENSION shortener UPDATE;';
    END IF;

    IF present < 1 THEN
        CALL shortener.create_tables();
        INSERT INTO shortener.installation (schema_version, notification_key) VALUES (1, shortener.random_key());
    END IF;
    CALL shortener.create_views();
    CALL shortener.create_triggers();
    CALL shortener.restore_access();
    IF NOT EXISTS (SELECT FROM shortener.workspace) THEN
        PERFORM shortener.create_workspace('default', 'Default');
    END IF;
    PERFORM pg_notify('shortener', 'flush'); -- without the triggers nobody was told of changes
    UPDATE shortener.installation SET schema_version = newest, derived_objects = shortener.derived_objects();
EXCEPTION
    WHEN lock_not_available THEN
        RAISE 'could not lock the tables of shortener within %', current_setting('lock_timeout') USING
            ERRCODE = 'lock_not_available',
            DETAIL = 'Another transaction uses them; nothing has been changed.',
            HINT = 'End long transactions, see pg_stat_activity, and call install() again.';
    WHEN duplicate_table OR unique_violation THEN -- two at once, and the other one was first
        RAISE 'another session has installed shortener meanwhile' USING ERRCODE = 'serialization_failure', HINT = 'Try again.';
END $$;
COMMENT ON PROCEDURE bring_up_to_date() IS 'step of install()';

CREATE FUNCTION schema_version() RETURNS integer
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN 1;
COMMENT ON FUNCTION schema_version() IS 'version of the tables that belongs to this version of the extension';

CREATE PROCEDURE install()
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM shortener.require_own_schema();
    IF to_regclass('shortener.installation') IS NOT NULL THEN
        IF EXISTS (SELECT FROM shortener.installation i
                WHERE i.schema_version = shortener.schema_version() AND i.derived_objects = shortener.derived_objects()) THEN
            RETURN;
        END IF;
    END IF;
    CALL shortener.bring_up_to_date();
END $$;
COMMENT ON PROCEDURE install() IS
    'creates the tables, owned by the caller, or updates them to the version of the extension; does nothing when they are up to date';
REVOKE EXECUTE ON PROCEDURE install(), bring_up_to_date(), create_tables(), create_views(), create_triggers() FROM PUBLIC;
REVOKE EXECUTE ON FUNCTION require_own_schema(), derived_objects() FROM PUBLIC;

-- After DROP EXTENSION ... CASCADE the tables are still there, without their triggers. Whoever creates the extension must
-- not touch the tables of another role with his rights, so this other role is to call install(). Until then every
-- function raises an error.
DO $$
DECLARE
    owner pg_catalog.name;
BEGIN
    SELECT pg_catalog.pg_get_userbyid(c.relowner) INTO owner FROM pg_catalog.pg_class c
        WHERE c.relnamespace OPERATOR(pg_catalog.=) 'shortener'::pg_catalog.regnamespace
          AND c.relname OPERATOR(pg_catalog.=) 'installation'::pg_catalog.name;
    IF owner OPERATOR(pg_catalog.=) current_user THEN
        PERFORM shortener.require_own_schema();
        CALL shortener.create_triggers();
        PERFORM pg_catalog.pg_notify('shortener', 'flush');
    ELSIF owner IS NOT NULL THEN
        RAISE WARNING 'the tables of shortener belong to role "%"', owner
            USING HINT = pg_catalog.format('As role "%s": CALL shortener.install();', owner);
    END IF;
END $$;
