-- Expiry: every read checks expires_at, so a link is gone at its moment; cleanup_expired reclaims the rows later.

CREATE PROCEDURE cleanup_expired(batch_size integer = 1000, older_than interval = '30 days',
                                 max_duration interval = '5 minutes', archive boolean = false)
    LANGUAGE plpgsql
AS $$
-- The triggers of link retire the codes of what is deleted, here and everywhere else.
-- It commits, so it can have no SET clause and no SECURITY DEFINER: each transaction sets search_path for itself, and
-- its isolation level, above which two that run at once would fail. What is before that, types too, is qualified.
-- Several may run at once: SKIP LOCKED deals each row to one of them, and a row that a revival holds to none.
-- That needs no lock that a cancelled run could leave behind in its session.
DECLARE
    started constant pg_catalog.timestamptz := pg_catalog.clock_timestamp();
    margin constant interval := interval '1 hour';
    cutoff pg_catalog.timestamptz;
    run bigint;
    enough boolean;
    due pg_catalog.tid[]; -- of the batch, and locked
    batch integer; -- rows that the last batch removed
    failure pg_catalog.text;
    failure_detail pg_catalog.text;
    failure_hint pg_catalog.text;
    failure_state pg_catalog.text;
    kept_code pg_catalog.text;
BEGIN
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    IF batch_size IS NULL OR batch_size NOT BETWEEN 1 AND 100000 THEN
        RAISE 'batch_size must be from 1 to 100000' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF older_than IS NULL OR max_duration IS NULL OR archive IS NULL THEN
        RAISE 'older_than, max_duration and archive must not be null' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    IF max_duration <= '0' THEN
        RAISE 'max_duration must be positive' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    CALL shortener.require_no_transaction('cleanup_expired');
    PERFORM shortener.require_install();
    IF pg_is_in_recovery() THEN
        RAISE NOTICE 'nothing to do on a standby: the primary''s cleanup arrives by replication';
        RETURN;
    END IF;
    IF older_than < margin THEN
        RAISE NOTICE 'links are kept for at least % after their expiry, because clocks may disagree', margin;
    END IF;
    cutoff := started - greatest(older_than, margin);

    COMMIT;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED; -- nothing may stand between the two
    SET LOCAL search_path = pg_catalog, pg_temp;
    PERFORM shortener.lock_for_job('{cleanup_run,cleanup_total}'::text[]);
    INSERT INTO shortener.cleanup_run (started_at, pid, backend_start)
        VALUES (started, pg_backend_pid(), shortener.backend_start())
        RETURNING id INTO run;
    CALL shortener.forget_cleanup_runs();
    COMMIT;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;

    LOOP
        SET LOCAL search_path = pg_catalog, pg_temp;
        PERFORM shortener.lock_for_job('{cleanup_run}'::text[]);
        BEGIN
            PERFORM shortener.lock_for_job('{link}'::text[]);
            due := ARRAY(
                SELECT e.ctid FROM shortener.link e
                WHERE e.expires_at < cutoff AND e.deleted_at IS NULL
                ORDER BY e.expires_at
                LIMIT batch_size
                FOR UPDATE SKIP LOCKED);
            IF archive THEN
                PERFORM shortener.lock_for_job('{link_archive}'::text[]);
                INSERT INTO shortener.link_archive (id, created_at, updated_at, expires_at, deleted_at, workspace_id,
                    redirect_status, is_active, url_digest, short_code, original_url, title, description, metadata,
                    created_by, created_ip)
                SELECT l.id, l.created_at, l.updated_at, l.expires_at, l.deleted_at, l.workspace_id,
                    l.redirect_status, l.is_active, l.url_digest, l.short_code, l.original_url, l.title, l.description, l.metadata,
                    l.created_by, l.created_ip
                FROM shortener.link l WHERE l.ctid = ANY (due);
            END IF;
            DELETE FROM shortener.link l WHERE l.ctid = ANY (due);
            GET DIAGNOSTICS batch = ROW_COUNT;
        EXCEPTION WHEN OTHERS THEN
            GET STACKED DIAGNOSTICS failure = MESSAGE_TEXT, failure_detail = PG_EXCEPTION_DETAIL,
                failure_hint = PG_EXCEPTION_HINT, failure_state = RETURNED_SQLSTATE;
            batch := 0;
        END;
        UPDATE shortener.cleanup_run r
            SET removed = r.removed + batch, last_batch_size = coalesce(nullif(batch, 0), r.last_batch_size)
            WHERE r.id = run;
        enough := batch < batch_size OR clock_timestamp() - started >= max_duration;
        COMMIT;
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
        EXIT WHEN enough;
    END LOOP;

    SET LOCAL search_path = pg_catalog, pg_temp;
    PERFORM shortener.lock_for_job('{cleanup_run}'::text[]);
    IF failure_state = '23503' THEN -- a foreign key to link, of which the detail says the primary key
        SELECT l.short_code INTO kept_code
            FROM regexp_match(failure_detail, '\(workspace_id, id\)=\((\d+), (\d+)\)') key
            JOIN shortener.link l ON l.workspace_id = key[1]::integer AND l.id = key[2]::bigint;
        IF FOUND THEN
            failure_detail := failure_detail || format(' It is the link "%s".', kept_code);
        END IF;
        failure_hint := 'Declare the foreign key ON DELETE CASCADE or ON DELETE SET NULL, or delete the rows that refer to the link.';
    END IF;
    UPDATE shortener.cleanup_run
        SET finished_at = clock_timestamp(), error = failure || coalesce(E'\n' || nullif(failure_detail, ''), '')
        WHERE id = run;
    COMMIT;
    IF failure IS NOT NULL THEN
        SET LOCAL search_path = pg_catalog, pg_temp;
        RAISE '%', failure USING ERRCODE = failure_state,
            DETAIL = concat_ws(E'\n', nullif(failure_detail, ''), 'The batches before it are done.'),
            HINT = coalesce(nullif(failure_hint, ''), 'The run is recorded in shortener.cleanup_run.');
    END IF;
END $$;
COMMENT ON PROCEDURE cleanup_expired(integer, interval, interval, boolean) IS
    'removes links that expired longer ago than older_than, in batches of one transaction each; their codes stay retired';

CREATE PROCEDURE forget_cleanup_runs(keep integer = 1000)
    LANGUAGE sql
    SET search_path = pg_catalog, pg_temp
AS $$
    -- What goes is added to the totals, so that cleanup_stats loses nothing.
    WITH gone AS (
        DELETE FROM shortener.cleanup_run
        WHERE id <= (SELECT max(id) FROM shortener.cleanup_run) - keep
          AND (finished_at IS NOT NULL OR started_at < now() - interval '1 day')
        RETURNING *
    )
    UPDATE shortener.cleanup_total t
    SET removed = t.removed + g.removed, successful_runs = t.successful_runs + g.successful,
        failed_runs = t.failed_runs + g.failed, successful_ms = t.successful_ms + g.ms
    FROM (SELECT coalesce(sum(removed), 0) AS removed,
                 count(*) FILTER (WHERE succeeded) AS successful,
                 count(*) FILTER (WHERE NOT succeeded) AS failed,
                 coalesce(sum(ms) FILTER (WHERE succeeded), 0) AS ms
          FROM (SELECT removed, finished_at IS NOT NULL AND error IS NULL AS succeeded,
                       extract(epoch FROM finished_at - started_at) * 1000 AS ms FROM gone) r) g
    WHERE g.successful + g.failed > 0;
$$;
COMMENT ON PROCEDURE forget_cleanup_runs(integer) IS 'keeps the last runs of cleanup_expired one by one and the older ones as totals';

REVOKE EXECUTE ON PROCEDURE cleanup_expired(integer, interval, interval, boolean), forget_cleanup_runs(integer) FROM PUBLIC;
