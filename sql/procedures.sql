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

-- A role that writes to a table runs what others have put there, and in a job nobody sees that. So a job accepts only
-- triggers of roles that could do as much anyway, and no superuser works on the tables of another role. A foreign key
-- with an action makes the job write to the referring table too, and the check of any foreign key may cast by a function
-- of its column's type: both are looked at. The locks keep it so until the transaction ends.
CREATE FUNCTION lock_for_job(tables text[]) RETURNS void
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    name text;
    foreign_owner name;
    trusted oid[];
    relations oid[] := '{}'::oid[];
    added oid[];
    refused record;
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

    added := ARRAY(SELECT c.oid FROM pg_class c WHERE c.relnamespace = 'shortener'::regnamespace AND c.relname = ANY (tables));
    trusted := ARRAY(SELECT r.oid FROM pg_roles r
                     WHERE r.rolsuper OR r.rolname = current_user OR r.oid IN (SELECT c.relowner FROM pg_class c WHERE c.oid = ANY (added)));
    WHILE added <> '{}' LOOP
        relations := relations || added;
        SELECT k.conname AS key, k.conrelid::regclass AS table, pg_get_userbyid(c.relowner) AS owner INTO refused
            FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
            WHERE k.contype = 'f' AND k.confrelid = ANY (added) AND c.relowner <> ALL (trusted)
              AND ('{c,n,d}' && ARRAY[k.confdeltype, k.confupdtype]
                   OR EXISTS (SELECT FROM pg_attribute a JOIN pg_type y ON y.oid = a.atttypid
                              WHERE a.attrelid = k.conrelid AND a.attnum = ANY (k.conkey) AND y.typowner <> ALL (trusted)))
            LIMIT 1;
        IF FOUND THEN
            RAISE 'foreign key "%" is of table % of role "%"', refused.key, refused.table, refused.owner USING
                ERRCODE = 'insufficient_privilege',
                DETAIL = format('Code of that role could run with the rights of role "%s".', current_user),
                HINT = 'Drop the foreign key, or make the owner of the tables of shortener the owner of that table.';
        END IF;
        added := ARRAY(
            SELECT i.inhrelid FROM pg_inherits i WHERE i.inhparent = ANY (added)
            UNION SELECT k.conrelid FROM pg_constraint k
            WHERE k.contype = 'f' AND k.confrelid = ANY (added) AND '{c,n,d}' && ARRAY[k.confdeltype, k.confupdtype]
            EXCEPT SELECT unnest(relations));
        FOR refused IN SELECT u.oid::regclass AS table FROM unnest(added) u (oid) WHERE has_table_privilege(u.oid, 'INSERT, UPDATE, DELETE') LOOP
            EXECUTE format('LOCK TABLE ONLY %s IN ROW EXCLUSIVE MODE', refused.table);
        END LOOP;
    END LOOP;

    SELECT t.tgname AS trigger, t.tgrelid::regclass AS table, pg_get_userbyid(p.proowner) AS owner INTO refused
        FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid
        WHERE t.tgrelid = ANY (relations) AND NOT t.tgisinternal AND t.tgenabled <> 'D' AND p.proowner <> ALL (trusted)
        LIMIT 1;
    IF FOUND THEN
        RAISE 'trigger "%" of table % calls a function of role "%"', refused.trigger, refused.table, refused.owner USING
            ERRCODE = 'insufficient_privilege',
            DETAIL = format('The function would run with the rights of role "%s".', current_user),
            HINT = 'Drop the trigger, or make the owner of the table the owner of its function.';
    END IF;
    -- A trigger has no owner: anybody with the privilege TRIGGER may have written its condition.
    SELECT t.tgname AS trigger, t.tgrelid::regclass AS table INTO refused
        FROM pg_trigger t
        WHERE t.tgrelid = ANY (relations) AND NOT t.tgisinternal AND t.tgenabled <> 'D'
          AND (t.tgqual::text LIKE '%{FUNCEXPR %'
               OR EXISTS (SELECT FROM pg_depend d
                          LEFT JOIN pg_operator o ON d.refclassid = 'pg_operator'::regclass AND o.oid = d.refobjid
                          LEFT JOIN pg_type y ON d.refclassid = 'pg_type'::regclass AND y.oid = d.refobjid
                          WHERE d.classid = 'pg_trigger'::regclass AND d.objid = t.oid AND coalesce(o.oprowner, y.typowner) <> ALL (trusted)))
        LIMIT 1;
    IF FOUND THEN
        RAISE 'trigger "%" of table % has a condition that calls a function', refused.trigger, refused.table USING
            ERRCODE = 'insufficient_privilege',
            DETAIL = format('The function would run with the rights of role "%s", whoever made the trigger.', current_user),
            HINT = 'Drop the trigger, or have its function ask for the condition.';
    END IF;
END $$;
COMMENT ON FUNCTION lock_for_job(text[]) IS 'locks tables for writing and refuses those by which other roles'' code would run';

REVOKE EXECUTE ON FUNCTION lock_for_job(text[]) FROM PUBLIC;
