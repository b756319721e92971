-- The table about the tables.

CREATE PROCEDURE create_installation_tables()
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- One row about the tables themselves.
    CREATE TABLE shortener.installation (
        singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
        schema_version integer NOT NULL,
        notification_key bytea NOT NULL CHECK (octet_length(notification_key) = 16),
        derived_objects text,
        audit boolean NOT NULL DEFAULT false,
        audit_kept interval NOT NULL DEFAULT '1 year' CHECK (audit_kept >= '1 day')
    );
    COMMENT ON TABLE shortener.installation IS 'version of the tables, key of the tags in notifications, and whether the audit is on';
    COMMENT ON COLUMN shortener.installation.derived_objects IS 'fingerprint of the views, triggers and policies as install() left them';
    COMMENT ON COLUMN shortener.installation.audit IS 'whether changes of links are written to link_audit; see enable_audit()';
    COMMENT ON COLUMN shortener.installation.audit_kept IS 'how long entries are kept';
END $$;
COMMENT ON PROCEDURE create_installation_tables() IS 'step of install()';
REVOKE EXECUTE ON PROCEDURE create_installation_tables() FROM PUBLIC;
