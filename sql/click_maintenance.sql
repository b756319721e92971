-- Upkeep of clicks: partitions, retention, salts.

-- The months before now are for clicks that come late, or are brought from elsewhere.
CREATE PROCEDURE make_click_partitions(keep_events interval = '13 months', ahead interval = '3 months')
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM shortener.make_month_partition(t.parent, m.month::date)
        FROM (VALUES ('click_event'::name, keep_events), ('click_hour', '0'), ('click_day', '0'), ('click_day_breakdown', '0')) t (parent, keep)
        CROSS JOIN LATERAL generate_series(date_trunc('month', now() AT TIME ZONE 'UTC' - t.keep), now() AT TIME ZONE 'UTC' + ahead, '1 month') m (month)
        ORDER BY t.parent, m.month;
END $$;
COMMENT ON PROCEDURE make_click_partitions(interval, interval) IS 'step of install() and maintain_clicks()';

CREATE FUNCTION drop_click_partition(parent name, partition name, month date) RETURNS void
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
    SET jit = off
AS $$
BEGIN
    PERFORM shortener.lock_for_job('{click_month,click_month_breakdown,click_rollup}'::text[]);
    PERFORM FROM shortener.click_rollup FOR UPDATE; -- so that nobody counts meanwhile
    IF NOT EXISTS (SELECT FROM shortener.month_partitions(drop_click_partition.parent) p WHERE p.partition = drop_click_partition.partition) THEN
        RETURN; -- another session was faster
    END IF;
    IF parent = 'click_day' THEN
        INSERT INTO shortener.click_month AS t (workspace_id, link_id, month, clicks, bots, visitors)
            SELECT d.workspace_id, d.link_id, drop_click_partition.month, sum(d.clicks), sum(d.bots), shortener.merge_visitors(d.visitors)
            FROM shortener.click_day d WHERE d.day >= drop_click_partition.month AND d.day < drop_click_partition.month + interval '1 month'
            GROUP BY d.workspace_id, d.link_id
            ON CONFLICT ON CONSTRAINT click_month_pkey DO UPDATE SET clicks = t.clicks + excluded.clicks, bots = t.bots + excluded.bots,
                visitors = shortener.merge_two_visitors(t.visitors, excluded.visitors);
    ELSIF parent = 'click_day_breakdown' THEN
        INSERT INTO shortener.click_month_breakdown AS t (workspace_id, link_id, month, dimension, value, clicks)
            SELECT d.workspace_id, d.link_id, drop_click_partition.month, d.dimension, d.value, sum(d.clicks)
            FROM shortener.click_day_breakdown d WHERE d.day >= drop_click_partition.month AND d.day < drop_click_partition.month + interval '1 month'
            GROUP BY d.workspace_id, d.link_id, d.dimension, d.value
            ON CONFLICT ON CONSTRAINT click_month_breakdown_pkey DO UPDATE SET clicks = t.clicks + excluded.clicks;
    END IF;
    EXECUTE format('DROP TABLE shortener.%I', partition);
END $$;
COMMENT ON FUNCTION drop_click_partition(name, name, date) IS 'drops a partition of a table of clicks; counters of days move to their month';

CREATE PROCEDURE maintain_clicks(keep_events interval = '13 months', keep_hours interval = '30 days', keep_days interval = '1 year',
                                 keep_months interval = '5 years', ahead interval = '3 months')
    LANGUAGE plpgsql
AS $$
-- As rollup_clicks: it commits after each step. A step that cannot have its lock at once is left to the next run.
DECLARE
    caller_lock_timeout constant pg_catalog.text := pg_catalog.current_setting('lock_timeout');
    caller_path constant pg_catalog.text := pg_catalog.current_setting('search_path'); -- for the rest of a transaction block
    commits constant boolean := shortener.can_commit();
    today constant pg_catalog.date := (pg_catalog.now() AT TIME ZONE 'UTC')::pg_catalog.date;
    step integer := 0;
    old_parent pg_catalog.name := '';
    old_partition pg_catalog.name;
    old_month pg_catalog.date := pg_catalog.date '-infinity';
BEGIN
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    IF keep_events IS NULL OR keep_hours IS NULL OR keep_days IS NULL OR keep_months IS NULL OR ahead IS NULL THEN
        RAISE 'the arguments of maintain_clicks must not be null' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    IF least(keep_events, keep_hours, keep_days, keep_months) < '1 day' THEN
        RAISE 'clicks must be kept for at least a day' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF ahead < '0' THEN
        RAISE 'ahead must not be negative' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM shortener.require_install();
    IF pg_is_in_recovery() THEN
        RAISE NOTICE 'nothing to do on a standby: the primary''s upkeep arrives by replication';
        PERFORM pg_catalog.set_config('search_path', caller_path, true);
        RETURN;
    END IF;
    PERFORM shortener.require_owner();
    LOOP
        IF commits THEN
            COMMIT;
            SET TRANSACTION ISOLATION LEVEL READ COMMITTED; -- nothing may stand between the two
        END IF;
        SET LOCAL search_path = pg_catalog, pg_temp;
        SET LOCAL lock_timeout = '2s';
        step := step + 1;
        BEGIN
            IF step = 1 THEN
                CALL shortener.destroy_click_salts(today);
            ELSIF step = 2 THEN
                PERFORM FROM shortener.click_rollup FOR UPDATE; -- which makes partitions too
                CALL shortener.make_click_partitions(keep_events, ahead);
            ELSIF step = 3 THEN
                CALL shortener.prune_click_dictionaries((today - keep_events)::date, (today - keep_months)::date);
            ELSE -- a partition, the oldest first
                SELECT t.parent, p.partition, p.month INTO old_parent, old_partition, old_month
                    FROM (VALUES ('click_event'::name, keep_events), ('click_hour', keep_hours), ('click_day', keep_days),
                                 ('click_day_breakdown', keep_days)) t (parent, keep)
                    CROSS JOIN LATERAL shortener.month_partitions(t.parent) p
                    WHERE p.month + interval '1 month' <= today - t.keep AND (p.month, t.parent) > (old_month, old_parent)
                    ORDER BY p.month, t.parent LIMIT 1;
                EXIT WHEN NOT FOUND;
                PERFORM shortener.drop_click_partition(old_parent, old_partition, old_month);
            END IF;
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            RAISE WARNING 'a step of maintain_clicks is left to the next run, because a table was in use for longer than lock_timeout';
        END;
    END LOOP;
    PERFORM pg_catalog.set_config('search_path', caller_path, true);
    PERFORM pg_catalog.set_config('lock_timeout', caller_lock_timeout, true);
END $$;
COMMENT ON PROCEDURE maintain_clicks(interval, interval, interval, interval, interval) IS
    'creates partitions in advance, drops what has been kept long enough, and destroys the salts of past days';

CREATE PROCEDURE destroy_click_salts(today date)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    kept shortener.click_salt[];
BEGIN
    IF NOT EXISTS (SELECT FROM shortener.click_salt s WHERE s.day < today - 1 AND s.created_at < now() - interval '1 day') THEN
        RETURN;
    END IF;
    LOCK TABLE shortener.click_salt IN ACCESS EXCLUSIVE MODE; -- first: two that raise a lesser lock would deadlock
    PERFORM shortener.lock_for_job('{click_salt}'::text[]);
    -- A new file instead of a deletion, which would leave the salts where they are until they are written over.
    kept := ARRAY(SELECT s FROM shortener.click_salt s WHERE NOT (s.day < today - 1 AND s.created_at < now() - interval '1 day'));
    TRUNCATE shortener.click_salt;
    INSERT INTO shortener.click_salt SELECT * FROM unnest(kept);
END $$;
COMMENT ON PROCEDURE destroy_click_salts(date) IS 'step of maintain_clicks(): destroys salts that are more than a day old, of days that ended more than a day ago';

CREATE PROCEDURE prune_click_dictionaries(events_since date, months_since date)
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    -- record_clicks marks a row with the day before it uses it; a month of partitions is dropped as a whole.
    unused_since constant date := least(date_trunc('month', events_since::timestamp),
        (SELECT min(p.month) FROM shortener.month_partitions('click_event') p)) - interval '2 days';
BEGIN
    PERFORM shortener.lock_for_job('{user_agent,referrer,place,click_batch,unknown_code,click_month,click_month_breakdown}'::text[]);
    DELETE FROM shortener.user_agent d WHERE d.last_seen < unused_since;
    DELETE FROM shortener.referrer d WHERE d.last_seen < unused_since;
    DELETE FROM shortener.place d WHERE d.last_seen < unused_since;
    DELETE FROM shortener.click_batch b WHERE b.received_at < now() - interval '7 days';
    DELETE FROM shortener.unknown_code u WHERE u.day < now() AT TIME ZONE 'UTC' - interval '90 days';
    DELETE FROM shortener.click_month m WHERE m.month + interval '1 month' <= months_since;
    DELETE FROM shortener.click_month_breakdown m WHERE m.month + interval '1 month' <= months_since;
END $$;
COMMENT ON PROCEDURE prune_click_dictionaries(date, date) IS 'step of maintain_clicks()';

REVOKE EXECUTE ON FUNCTION drop_click_partition(name, name, date) FROM PUBLIC;
REVOKE EXECUTE ON PROCEDURE maintain_clicks(interval, interval, interval, interval, interval),
    make_click_partitions(interval, interval), destroy_click_salts(date), prune_click_dictionaries(date, date) FROM PUBLIC;
