-- Periodic work, run by pg_cron.

-- The one list of jobs: what schedules, unschedules and shows them goes by it. A new job is a new row.
CREATE FUNCTION job_definitions() RETURNS TABLE (job text, schedule text, command text, about_cron boolean)
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp
AS $$
    VALUES
        ('cleanup', '*/15 * * * *', 'CALL shortener.cleanup_expired()', false),
        ('rollup clicks', '* * * * *', 'CALL shortener.rollup_clicks()', false),
        ('maintain clicks', '7 * * * *', 'CALL shortener.maintain_clicks()', false),
        ('maintain audit', '47 3 * * *', 'CALL shortener.maintain_audit()', false),
        ('remove API keys', '27 3 * * *', 'SELECT shortener.remove_expired_api_keys()', false),
        ('remove unused tags', '37 3 * * *', 'SELECT shortener.remove_unused_tags()', false),
        ('purge history', '17 3 * * *', 'CALL shortener.purge_job_history()', true)
$$;
COMMENT ON FUNCTION job_definitions() IS
    'the jobs of shortener with their default schedules; those about pg_cron itself run in its database, the others where the links are';

-- Names carry the database: in pg_cron they are unique over all of them. A name that would be cut, and so could be that
-- of another database, carries a hash.
CREATE FUNCTION job_name(job text, database text) RETURNS name
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN ('shortener ' || job || ' ('
            || CASE WHEN octet_length(job || database) > 50 THEN left(md5(database), 16) ELSE database END || ')')::name;
COMMENT ON FUNCTION job_name(text, text) IS 'name of a job in pg_cron';

-- Anybody may have made a schema of that name. The one that belongs to the extension is pg_cron's, with all that is in it.
CREATE FUNCTION has_cron() RETURNS boolean
    LANGUAGE sql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT EXISTS (
        SELECT FROM pg_extension e
        JOIN pg_depend d ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND d.deptype = 'e'
        JOIN pg_namespace n ON d.classid = 'pg_namespace'::regclass AND d.objid = n.oid
        WHERE e.extname = 'pg_cron' AND n.nspname = 'cron')
$$;
COMMENT ON FUNCTION has_cron() IS 'whether pg_cron is installed in this database';

CREATE FUNCTION require_cron(database text, called text) RETURNS void
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    home text;
BEGIN
    IF shortener.has_cron() THEN
        RETURN;
    END IF;
    SELECT setting INTO home FROM pg_settings WHERE name = 'cron.database_name'; -- none for those who may not read it
    IF home IS NOT NULL AND home <> current_database() THEN
        RAISE 'pg_cron is installed in another database, "%"', home USING
            ERRCODE = 'object_not_in_prerequisite_state',
            HINT = format('In database %I: CREATE EXTENSION IF NOT EXISTS pg_cron; CREATE EXTENSION IF NOT EXISTS shortener CASCADE; '
                          'SELECT shortener.%I(database => %L);', home, left(called, 64), left(database, 64));
    END IF;
    RAISE 'pg_cron is not installed in this database' USING
        ERRCODE = 'object_not_in_prerequisite_state',
        HINT = CASE WHEN called <> 'schedule_jobs' THEN 'Jobs are scheduled where pg_cron is.'
                    WHEN home IS NOT NULL THEN 'CREATE EXTENSION pg_cron;'
                    ELSE shortener.jobs_without_cron(left(database, 64)) END;
END $$;
COMMENT ON FUNCTION require_cron(text, text) IS
    'raises an error unless pg_cron is in this database; its hint says where to call the function that was called';

CREATE FUNCTION jobs_without_cron(database text) RETURNS text
    LANGUAGE sql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT E'Add pg_cron to shared_preload_libraries and CREATE EXTENSION pg_cron, or run the jobs by other means.'
        || string_agg(format(E'\ncrontab: %s  %s\nsystemd timer: OnCalendar=*-%s-%s %s:%s, with ExecStart=%s',
               d.schedule, replace(psql, '%', '\%'), field[4], field[3], field[2], field[1], replace(psql, '%', '%%')), '' ORDER BY d.job)
    FROM shortener.job_definitions() d
    CROSS JOIN LATERAL string_to_array(replace(d.schedule, '*/', '0/'), ' ') field
    CROSS JOIN LATERAL (SELECT CASE WHEN database ~ '^[A-Za-z0-9_.-]+$' THEN database
                                    ELSE '''' || replace(database, '''', '''\''''') || '''' END) q (word)
    CROSS JOIN LATERAL (SELECT format('psql -X -d %s -c ''%s''', word, d.command)) p (psql)
    WHERE NOT d.about_cron
$$;
COMMENT ON FUNCTION jobs_without_cron(text) IS 'hint of schedule_jobs(): the jobs as lines for crontab and systemd';

-- No job runs as a superuser where another role could have its own code run by it: the owner of a database can drop it
-- and create one of the same name, the owner of a table has triggers on it.
CREATE FUNCTION job_role(database text, username text) RETURNS text
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    database_owner oid;
    table_owner oid;
    runner record;
    stranger text;
BEGIN
    SELECT d.datdba INTO database_owner FROM pg_database d WHERE d.datname = database;
    IF NOT FOUND THEN
        RAISE 'database "%" does not exist', left(database, 64) USING ERRCODE = 'invalid_catalog_name';
    END IF;
    IF database = current_database() THEN
        SELECT c.relowner INTO table_owner FROM pg_class c WHERE c.oid = to_regclass('shortener.link');
    END IF;
    IF username IS NULL THEN
        SELECT CASE WHEN r.rolsuper AND table_owner IS NOT NULL THEN pg_get_userbyid(table_owner) ELSE r.rolname END INTO username
            FROM pg_roles r WHERE r.rolname = current_user;
    END IF;
    SELECT r.rolname, r.rolsuper, r.rolcanlogin INTO runner FROM pg_roles r WHERE r.rolname = username;
    IF NOT FOUND THEN
        RAISE 'role "%" does not exist', left(username, 64) USING ERRCODE = 'undefined_object';
    END IF;
    IF NOT runner.rolcanlogin THEN
        RAISE 'pg_cron cannot run jobs as role "%", which is not permitted to log in', username USING
            ERRCODE = 'object_not_in_prerequisite_state',
            HINT = format('ALTER ROLE %I LOGIN; or pass another role as argument "username".', username);
    END IF;
    SELECT r.rolname INTO stranger FROM pg_roles r WHERE r.oid IN (table_owner, database_owner) AND NOT r.rolsuper
        ORDER BY r.oid = table_owner DESC LIMIT 1;
    IF runner.rolsuper AND stranger IS NOT NULL THEN
        RAISE 'jobs in database "%" must not run as superuser "%"', database, username USING
            ERRCODE = 'insufficient_privilege',
            DETAIL = format('The database or its tables belong to role "%s", whose code could then run with the rights of a superuser.', stranger),
            HINT = format('Pass the role that owns the tables: SELECT shortener.schedule_jobs(database => %L, username => %L);', database, stranger);
    END IF;
    RETURN username;
END $$;
COMMENT ON FUNCTION job_role(text, text) IS
    'the role that jobs in a database run as: the given one, else for a superuser the owner of the tables, else the current one';

-- pg_cron comes by TCP and without a password, unless it is told otherwise; Debian's pg_hba.conf lets nobody in like that.
CREATE FUNCTION check_cron_login(database text, username text) RETURNS void
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    cron_host text;
    is_address constant text = '^[0-9.]+$|:';
    methods text[]; -- of the line in pg_hba.conf for each address by which pg_cron may come
BEGIN
    IF (SELECT setting = 'on' FROM pg_settings WHERE name = 'cron.use_background_workers') THEN
        RETURN;
    END IF;
    SELECT setting INTO cron_host FROM pg_settings WHERE name = 'cron.host'; -- none for those who may not read it
    IF cron_host IS NULL OR NOT has_function_privilege('pg_hba_file_rules()', 'EXECUTE') THEN
        RAISE NOTICE 'could not check whether pg_cron can log in as role "%"', username USING
            HINT = 'After the first run, look at last_status and last_message in shortener.scheduled_jobs.';
        RETURN;
    END IF;
    methods := ARRAY(
        SELECT line.auth_method
        FROM unnest(CASE WHEN cron_host = 'localhost' THEN '{127.0.0.1,::1}' ELSE ARRAY[cron_host] END) AS came (host)
        CROSS JOIN LATERAL (
            SELECT r.auth_method FROM pg_hba_file_rules() WITH ORDINALITY r
            WHERE (r.type = 'local') = (came.host ~ '^[/@]')
              AND r.database && ARRAY['all', check_cron_login.database,
                                      CASE WHEN check_cron_login.username = check_cron_login.database THEN 'sameuser' END]
              AND (r.user_name && ARRAY['all', check_cron_login.username]
                   OR EXISTS (SELECT FROM pg_roles g
                              WHERE '+' || g.rolname = ANY (r.user_name) AND pg_has_role(check_cron_login.username, g.oid, 'MEMBER')))
              AND CASE WHEN r.type = 'local' OR r.address IN ('all', 'samehost', 'samenet', cron_host) THEN true
                       WHEN r.address ~ is_address AND came.host ~ is_address AND family(r.address::inet) = family(came.host::inet)
                       THEN r.address::inet & r.netmask::inet = came.host::inet & r.netmask::inet
                  END
            ORDER BY r.ordinality LIMIT 1) line);
    -- By a socket it comes as the operating system's user of the server, after whom initdb names the first superuser.
    IF username = pg_get_userbyid(10) THEN
        methods := array_remove(methods, 'peer');
    END IF;
    IF NOT methods <@ '{trust,cert,gss}' THEN
        RAISE WARNING 'pg_cron may be unable to log in as role "%"', username USING
            DETAIL = format('It connects to database "%s" through host "%s", where pg_hba.conf demands authentication by %s.',
                            database, cron_host, array_to_string(methods, ', ')),
            HINT = 'Set cron.use_background_workers = on in postgresql.conf and restart the server: then no login is needed.';
    END IF;
END $$;
COMMENT ON FUNCTION check_cron_login(text, text) IS 'warns when pg_cron would need a password to run jobs as a role';

CREATE FUNCTION schedule_jobs(cleanup text = NULL, purge_history text = NULL, database text = current_database(),
                              username text = NULL, schedules jsonb = '{}')
    RETURNS TABLE (job_name text, schedule text, command text)
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    chosen constant jsonb := jsonb_strip_nulls(jsonb_build_object('cleanup', cleanup, 'purge history', purge_history))
                             || coalesce(schedules, '{}');
    runner text;
    definition record;
    unknown text;
    role text;
    run_in text;
BEGIN
    PERFORM shortener.require_cron(database, 'schedule_jobs');
    SELECT key INTO unknown FROM jsonb_object_keys(chosen) key WHERE key NOT IN (SELECT d.job FROM shortener.job_definitions() d);
    IF FOUND THEN
        RAISE 'job "%" does not exist', left(unknown, 64) USING ERRCODE = 'invalid_parameter_value',
            HINT = (SELECT format('The jobs are: %s.', string_agg(d.job, ', ')) FROM shortener.job_definitions() d);
    END IF;
    runner := shortener.job_role(database, username);
    PERFORM shortener.check_cron_login(database, runner);

    FOR definition IN SELECT * FROM shortener.job_definitions() LOOP
        job_name := shortener.job_name(definition.job, database);
        schedule := coalesce(chosen ->> definition.job, definition.schedule);
        command := definition.command;
        run_in := CASE WHEN definition.about_cron THEN current_database() ELSE database END;
        role := CASE WHEN definition.about_cron THEN current_user ELSE runner END;
        -- To pg_cron, a job of the same name is another one if another role runs it.
        PERFORM cron.unschedule(j.jobid) FROM cron.job j WHERE j.jobname = schedule_jobs.job_name AND j.username <> role;
        IF run_in = current_database() AND role = current_user THEN -- which everybody may who may use the schema of pg_cron
            PERFORM cron.schedule(job_name, schedule, command);
        ELSE
            PERFORM cron.schedule_in_database(job_name, schedule, command, run_in, role);
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;
COMMENT ON FUNCTION schedule_jobs(text, text, text, text, jsonb) IS
    'schedules the periodic work of shortener for a database; call it in the database where pg_cron is installed, and again to change schedules';

CREATE FUNCTION unschedule_jobs(database text = current_database()) RETURNS integer
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM shortener.require_cron(database, 'unschedule_jobs');
    RETURN (SELECT count(cron.unschedule(j.jobid)) FROM cron.job j
            WHERE j.jobname IN (SELECT shortener.job_name(d.job, unschedule_jobs.database) FROM shortener.job_definitions() d));
END $$;
COMMENT ON FUNCTION unschedule_jobs(text) IS 'removes the jobs of schedule_jobs() from pg_cron, and returns their number';

CREATE FUNCTION list_jobs()
    RETURNS TABLE (name text, schedule text, last_run timestamptz, last_status text, last_message text, last_success timestamptz,
                   database text, username text, active boolean)
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    IF NOT shortener.has_cron() THEN
        RETURN;
    END IF;
    -- A run that could not connect has no time.
    RETURN QUERY
        SELECT j.jobname::text, j.schedule, coalesce(d.start_time, d.end_time), d.status, d.return_message, s.last_success,
               j.database, j.username, j.active
        FROM cron.job j
        LEFT JOIN LATERAL (SELECT * FROM cron.job_run_details r WHERE r.jobid = j.jobid ORDER BY r.runid DESC LIMIT 1) d ON true
        LEFT JOIN LATERAL (SELECT max(r.end_time) AS last_success FROM cron.job_run_details r
                           WHERE r.jobid = j.jobid AND r.status = 'succeeded') s ON true
        WHERE starts_with(j.jobname, 'shortener ')
        ORDER BY j.jobname;
END $$;
COMMENT ON FUNCTION list_jobs() IS 'behind the view scheduled_jobs: the jobs of shortener that pg_cron has in this database';

CREATE VIEW scheduled_jobs AS
    SELECT name, schedule, last_run, last_status, last_message, last_success, database, username, active FROM list_jobs();
COMMENT ON VIEW scheduled_jobs IS 'the jobs of shortener in pg_cron, with their last run';

-- pg_cron keeps every run for ever.
CREATE PROCEDURE purge_job_history(keep interval = '7 days')
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    cutoff constant timestamptz := now() - keep;
BEGIN
    PERFORM shortener.require_cron(current_database()::text, 'purge_job_history'::text);
    DELETE FROM cron.job_run_details d
    WHERE d.jobid IN (SELECT j.jobid FROM cron.job j WHERE starts_with(j.jobname, 'shortener '))
      AND CASE WHEN d.end_time IS NOT NULL THEN d.end_time < cutoff
               -- Running still, or ended by a crash: is its process there?
               WHEN d.start_time IS NOT NULL THEN d.start_time < cutoff AND NOT EXISTS (
                   SELECT FROM pg_stat_activity a WHERE a.pid = d.job_pid AND a.backend_start < d.start_time + interval '1 minute')
               -- It never started: as old as its neighbours.
               ELSE d.runid < (SELECT max(o.runid) FROM cron.job_run_details o WHERE coalesce(o.end_time, o.start_time) < cutoff)
          END;
END $$;
COMMENT ON PROCEDURE purge_job_history(interval) IS
    'removes the records of pg_cron about runs of these jobs that ended, or began and died, longer ago than keep';

REVOKE EXECUTE ON FUNCTION require_cron(text, text), jobs_without_cron(text), job_role(text, text), check_cron_login(text, text),
    schedule_jobs(text, text, text, text, jsonb), unschedule_jobs(text) FROM PUBLIC;
REVOKE EXECUTE ON PROCEDURE purge_job_history(interval) FROM PUBLIC;
