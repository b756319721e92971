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
END $$;
COMMENT ON PROCEDURE create_tables() IS 'step of install(): version 1 of the tables';

CREATE PROCEDURE create_views()
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    CALL shortener.create_link_views();
    CALL shortener.create_expiry_views();
END $$;
COMMENT ON PROCEDURE create_views() IS 'step of install()';

CREATE PROCEDURE create_triggers()
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    CALL shortener.create_workspace_triggers();
    CALL shortener.create_link_triggers();
END $$;
COMMENT ON PROCEDURE create_triggers() IS 'step of install()';

CREATE PROCEDURE install()
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    newest constant integer := 1;
    present integer := 0;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('shortener.install', 0));
    IF to_regclass('shortener.installation') IS NOT NULL THEN
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
        INSERT INTO shortener.installation (schema_version, cache_key) VALUES (1, shortener.random_key());
    END IF;
    UPDATE shortener.installation SET schema_version = newest WHERE schema_version < newest;
    CALL shortener.create_views();
    CALL shortener.create_triggers();

    IF NOT EXISTS (SELECT FROM shortener.workspace) THEN
        PERFORM shortener.create_workspace('default', 'Default');
    END IF;
    PERFORM pg_notify('shortener', 'flush'); -- without the triggers nobody was told of changes
END $$;
COMMENT ON PROCEDURE install() IS
    'creates the tables, owned by the caller, or brings them up to the version of the extension; call it again at will';
REVOKE EXECUTE ON PROCEDURE install(), create_tables(), create_views(), create_triggers() FROM PUBLIC;

-- After DROP EXTENSION ... CASCADE the tables are still there, without their triggers.
DO $$
BEGIN
    IF to_regclass('shortener.installation') IS NOT NULL THEN
        CALL shortener.create_triggers();
        PERFORM pg_catalog.pg_notify('shortener', 'flush');
    END IF;
END $$;
