-- What procedures that commit and jobs ask for.

CREATE PROCEDURE require_no_transaction(called text)
    LANGUAGE c
    AS 'MODULE_PATHNAME', 'shortener_require_no_transaction';
COMMENT ON PROCEDURE require_no_transaction(text) IS 'raises an error where a procedure cannot commit';

CREATE FUNCTION can_commit() RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'shortener_can_commit';
COMMENT ON FUNCTION can_commit() IS 'whether the calling procedure may COMMIT: not inside a transaction block or a function';

CREATE FUNCTION backend_start() RETURNS timestamptz
    LANGUAGE c STABLE PARALLEL RESTRICTED
    AS 'MODULE_PATHNAME', 'shortener_backend_start';
COMMENT ON FUNCTION backend_start() IS 'when this session began';

-- A role that writes to a table runs what others have put there. In a job nobody sees that: so a job takes only triggers
-- of those who could do as much anyway, and no superuser works on the tables of another role. The lock keeps it so.
CREATE FUNCTION lock_for_job(VARIADIC tables text[]) RETURNS void
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    name text;
    foreign_owner name;
    foreign_trigger record;
BEGIN
    FOREACH name IN ARRAY tables LOOP
        EXECUTE format('LOCK TABLE shortener.%I IN ROW EXCLUSIVE MODE', name);
    END LOOP;
    SELECT o.rolname INTO foreign_owner
        FROM pg_class c JOIN pg_roles o ON o.oid = c.relowner JOIN pg_roles u ON u.rolname = current_user
        WHERE c.relnamespace = 'shortener'::regnamespace AND c.relname = ANY (tables) AND u.rolsuper AND NOT o.rolsuper
        LIMIT 1;
    IF FOUND THEN
        RAISE 'a superuser must not run this job on tables of role "%"', foreign_owner USING
            ERRCODE = 'insufficient_privilege',
            DETAIL = 'Triggers of that role would run with the rights of a superuser.',
            HINT = format('Connect as role %I and run it there.', foreign_owner);
    END IF;
    WITH RECURSIVE relation (oid) AS (
        SELECT c.oid FROM pg_class c WHERE c.relnamespace = 'shortener'::regnamespace AND c.relname = ANY (tables)
        UNION SELECT i.inhrelid FROM relation r JOIN pg_inherits i ON i.inhparent = r.oid
    )
    SELECT t.tgname AS trigger, c.oid::regclass AS table, o.rolname AS owner INTO foreign_trigger
        FROM relation r
        JOIN pg_class c ON c.oid = r.oid
        JOIN pg_trigger t ON t.tgrelid = r.oid AND NOT t.tgisinternal AND t.tgenabled <> 'D'
        JOIN pg_proc p ON p.oid = t.tgfoid
        JOIN pg_roles o ON o.oid = p.proowner
        WHERE o.rolname <> current_user AND o.oid <> c.relowner AND NOT o.rolsuper
        LIMIT 1;
    IF FOUND THEN
        RAISE 'trigger "%" of table % calls a function of role "%"', foreign_trigger.trigger, foreign_trigger.table, foreign_trigger.owner USING
            ERRCODE = 'insufficient_privilege',
            DETAIL = format('The function would run with the rights of role "%s".', current_user),
            HINT = 'Drop the trigger, or make the owner of the table the owner of its function.';
    END IF;
END $$;
COMMENT ON FUNCTION lock_for_job(text[]) IS 'locks tables for writing and refuses those by which other roles'' code would run';

REVOKE EXECUTE ON FUNCTION lock_for_job(text[]) FROM PUBLIC;
