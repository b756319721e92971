-- Periodic work, run by pg_cron.

CREATE FUNCTION schedule_jobs(cleanup text = '*/15 * * * *', purge_history text = '17 3 * * *',
                              database text = current_database())
    RETURNS TABLE (job_name text, schedule text, command text)
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    run_in text;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_database d WHERE d.datname = database) THEN
        RAISE 'database "%" does not exist', database USING ERRCODE = 'invalid_catalog_name';
    END IF;
    PERFORM shortener.require_cron(database, cleanup);
    FOR job_name, schedule, command, run_in IN VALUES
        (shortener.job_name('cleanup', database), cleanup, 'CALL shortener.cleanup_expired()', database),
        -- pg_cron never forgets a run by itself; its table is in this database.
        (shortener.job_name('purge history', database), purge_history,
         'DELETE FROM cron.job_run_details WHERE end_time < now() - interval ''7 days'' '
         'AND jobid IN (SELECT jobid FROM cron.job WHERE starts_with(jobname, ''shortener ''))',
         current_database())
    LOOP
        IF run_in = current_database() THEN -- which pg_cron lets everybody do who may use its schema
            PERFORM cron.schedule(job_name, schedule, command);
        ELSE
            PERFORM cron.schedule_in_database(job_name, schedule, command, run_in);
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;
COMMENT ON FUNCTION schedule_jobs(text, text, text) IS
    'has pg_cron run the periodic work of shortener; call it in the database where pg_cron is, for this or another database; again at will';

CREATE FUNCTION unschedule_jobs(database text = current_database()) RETURNS integer
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM shortener.require_cron(database, '*/15 * * * *');
    RETURN (SELECT count(cron.unschedule(j.jobid)) FROM cron.job j
            WHERE j.jobname IN (shortener.job_name('cleanup', unschedule_jobs.database),
                                shortener.job_name('purge history', unschedule_jobs.database)));
END $$;
COMMENT ON FUNCTION unschedule_jobs(text) IS 'takes the jobs of schedule_jobs back; gives their number';

-- Names carry the database: in pg_cron they are unique over all of them.
CREATE FUNCTION job_name(job text, database text) RETURNS text
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN 'shortener ' || job || ' (' || database || ')';
COMMENT ON FUNCTION job_name(text, text) IS 'name of a job in pg_cron';

CREATE FUNCTION require_cron(database text, cleanup text) RETURNS void
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    home text;
    shell_database text := database;
BEGIN
    IF to_regclass('cron.job') IS NOT NULL THEN
        RETURN;
    END IF;
    SELECT setting INTO home FROM pg_settings WHERE name = 'cron.database_name'; -- none for those who may not read it
    IF home IS NOT NULL AND home <> current_database() THEN
        RAISE 'pg_cron lives in another database, "%"', home USING
            ERRCODE = 'object_not_in_prerequisite_state',
            HINT = format('In database %1$I: CREATE EXTENSION IF NOT EXISTS pg_cron; CREATE EXTENSION IF NOT EXISTS shortener; '
                          'SELECT shortener.schedule_jobs(database => %2$L);', home, database);
    END IF;
    IF database !~ '^[A-Za-z0-9_.-]+$' THEN
        shell_database := '''' || replace(database, '''', '''\''''') || '''';
    END IF;
    RAISE 'pg_cron is not installed in this database' USING
        ERRCODE = 'object_not_in_prerequisite_state',
        HINT = CASE WHEN home IS NOT NULL THEN 'CREATE EXTENSION pg_cron;' ELSE
            format(E'Add pg_cron to shared_preload_libraries and CREATE EXTENSION pg_cron, or run the same yourself.\n'
                   'crontab: %s  psql -X -d %s -c ''CALL shortener.cleanup_expired()''\n'
                   'systemd timer: OnCalendar=*:0/15, with ExecStart=psql -X -d %s -c ''CALL shortener.cleanup_expired()''',
                   cleanup, replace(shell_database, '%', '\%'), replace(shell_database, '%', '%%')) END;
END $$;
COMMENT ON FUNCTION require_cron(text, text) IS 'fails with a hint where pg_cron cannot be reached';

CREATE FUNCTION list_jobs() RETURNS TABLE (name text, schedule text, last_run timestamptz, last_status text)
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    IF to_regclass('cron.job') IS NULL THEN
        RETURN;
    END IF;
    RETURN QUERY
        SELECT j.jobname::text, j.schedule, d.start_time, d.status
        FROM cron.job j
        LEFT JOIN LATERAL (SELECT r.start_time, r.status FROM cron.job_run_details r WHERE r.jobid = j.jobid
                           ORDER BY r.runid DESC LIMIT 1) d ON true
        WHERE starts_with(j.jobname, 'shortener ')
        ORDER BY j.jobname;
END $$;
COMMENT ON FUNCTION list_jobs() IS 'behind the view scheduled_jobs: the jobs of shortener that pg_cron has in this database';

CREATE VIEW scheduled_jobs AS SELECT name, schedule, last_run, last_status FROM list_jobs();
COMMENT ON VIEW scheduled_jobs IS 'the jobs of shortener in pg_cron, with their last run';

REVOKE EXECUTE ON FUNCTION schedule_jobs(text, text, text), unschedule_jobs(text), require_cron(text, text) FROM PUBLIC;
