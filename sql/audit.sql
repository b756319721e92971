-- Turning the audit on and off, and its upkeep. What writes it is in extension/pg/audit.cpp.

CREATE PROCEDURE make_audit_partitions(ahead interval)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    today constant timestamp := now() AT TIME ZONE 'UTC';
BEGIN
    PERFORM shortener.make_month_partition('link_audit', m.month::date)
        FROM generate_series(date_trunc('month', today), today + ahead, '1 month') m (month);
END $$;
COMMENT ON PROCEDURE make_audit_partitions(interval) IS 'step of enable_audit() and maintain_audit()';

CREATE FUNCTION enable_audit(keep interval = NULL) RETURNS boolean
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
    SET lock_timeout = '3s'
AS $$
BEGIN
    PERFORM shortener.require_owner();
    IF keep < '1 day' THEN
        RAISE 'audit entries must be kept for at least a day' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    UPDATE shortener.installation SET audit_kept = keep WHERE keep IS NOT NULL;
    UPDATE shortener.installation SET audit = true WHERE NOT audit;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    CALL shortener.make_audit_partitions('3 months');
    CALL shortener.create_audit_triggers();
    RETURN true;
END $$;
COMMENT ON FUNCTION enable_audit(interval) IS
    'turns the audit on: every change of a link is written to link_audit, and kept for the given time; NULL: as set before, one year by default; false when it is on already';

CREATE FUNCTION disable_audit() RETURNS boolean
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
    SET lock_timeout = '3s'
AS $$
BEGIN
    PERFORM shortener.require_owner();
    UPDATE shortener.installation SET audit = false WHERE audit;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    CALL shortener.create_audit_triggers();
    RETURN true;
END $$;
COMMENT ON FUNCTION disable_audit() IS 'turns the audit off; entries that have been written stay; false when it is off already';

CREATE PROCEDURE maintain_audit(ahead interval = '3 months')
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
    SET lock_timeout = '2s'
AS $$
DECLARE
    today constant timestamp := now() AT TIME ZONE 'UTC';
    old name;
BEGIN
    IF ahead IS NULL THEN
        RAISE 'ahead must not be null' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    IF ahead < '0' THEN
        RAISE 'ahead must not be negative' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM shortener.require_install();
    IF pg_is_in_recovery() THEN
        RAISE NOTICE 'nothing to do on a standby: the primary''s upkeep arrives by replication';
        RETURN;
    END IF;
    PERFORM shortener.require_owner();
    IF (SELECT i.audit FROM shortener.installation i) THEN
        CALL shortener.make_audit_partitions(ahead);
    END IF;
    FOR old IN
        SELECT p.partition FROM shortener.month_partitions('link_audit') p
        CROSS JOIN shortener.installation i
        WHERE p.month + interval '1 month' <= today - i.audit_kept
    LOOP
        EXECUTE format('DROP TABLE shortener.%I', old);
    END LOOP;
EXCEPTION WHEN lock_not_available THEN
    RAISE WARNING 'maintain_audit is left to the next run, because a table was in use for longer than lock_timeout';
END $$;
COMMENT ON PROCEDURE maintain_audit(interval) IS 'creates partitions of link_audit in advance, and drops those whose entries have been kept long enough';

REVOKE EXECUTE ON FUNCTION enable_audit(interval), disable_audit() FROM PUBLIC;
REVOKE EXECUTE ON PROCEDURE maintain_audit(interval), make_audit_partitions(interval) FROM PUBLIC;
