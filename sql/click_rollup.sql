-- Counting clicks, and comparing the counters with the raw clicks.

CREATE FUNCTION roll_up_clicks(batch_size integer) RETURNS integer
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
    SET jit = off -- it takes longer to compile than to run
AS $$
DECLARE
    chosen tid[];
    parent name;
    month date;
BEGIN
    PERFORM shortener.lock_for_job('{click_rollup}'::text[]);
    PERFORM FROM shortener.click_rollup FOR UPDATE; -- one at a time: two would meet at the same counters
    -- Only now, because who holds that row may be about to drop partitions.
    PERFORM shortener.lock_for_job('{click_pending,click_hour,click_day,click_day_breakdown,click_total}'::text[]);
    chosen := ARRAY(SELECT p.ctid FROM shortener.click_pending p LIMIT batch_size);
    FOR parent, month IN
        SELECT DISTINCT t.parent, m.month::date
        FROM shortener.click_pending p
        CROSS JOIN LATERAL generate_series(date_trunc('month', p.first_click AT TIME ZONE 'UTC'), p.last_click AT TIME ZONE 'UTC',
                                           '1 month') m (month)
        CROSS JOIN unnest('{click_hour,click_day,click_day_breakdown}'::name[]) t (parent)
        WHERE p.ctid = ANY (chosen)
    LOOP
        PERFORM shortener.make_month_partition(parent, month);
    END LOOP;

    WITH due AS MATERIALIZED (
        DELETE FROM shortener.click_pending p WHERE p.ctid = ANY (chosen) RETURNING p.*
    ), click AS MATERIALIZED (
        SELECT d.workspace_id, c.link_id, c.clicked_at, c.visitor, date_trunc('hour', c.clicked_at, 'UTC') AS hour,
               (c.clicked_at AT TIME ZONE 'UTC')::date AS day, coalesce(u.device, 'unknown') AS device, coalesce(u.browser, 'unknown') AS browser, coalesce(u.os, 'unknown') AS os,
               r.host AS referrer, p.country, p.city
        FROM due d
        CROSS JOIN LATERAL unnest(d.link_ids, d.clicked_at, d.user_agent_ids, d.referrer_ids, d.place_ids, d.visitors)
            AS c (link_id, clicked_at, user_agent_id, referrer_id, place_id, visitor)
        LEFT JOIN shortener.user_agent u ON u.workspace_id = d.workspace_id AND u.id = c.user_agent_id
        LEFT JOIN shortener.referrer r ON r.workspace_id = d.workspace_id AND r.id = c.referrer_id
        LEFT JOIN shortener.place p ON p.workspace_id = d.workspace_id AND p.id = c.place_id
    ), into_hours AS (
        INSERT INTO shortener.click_hour AS t (workspace_id, link_id, hour, clicks, bots, visitors)
        SELECT c.workspace_id, c.link_id, c.hour, count(*), count(*) FILTER (WHERE c.device = 'bot'),
               shortener.add_visitors(shortener.visitor_key(c.visitor), 16, 5, 256, 1) FILTER (WHERE c.device <> 'bot')
        FROM click c GROUP BY c.workspace_id, c.link_id, c.hour
        ON CONFLICT (workspace_id, link_id, hour) DO UPDATE SET clicks = t.clicks + excluded.clicks, bots = t.bots + excluded.bots,
            visitors = shortener.merge_two_visitors(t.visitors, excluded.visitors)
    ), into_days AS (
        INSERT INTO shortener.click_day AS t (workspace_id, link_id, day, clicks, bots, visitors)
        SELECT c.workspace_id, c.link_id, c.day, count(*), count(*) FILTER (WHERE c.device = 'bot'),
               shortener.add_visitors(shortener.visitor_key(c.visitor), 16, 5, 256, 1) FILTER (WHERE c.device <> 'bot')
        FROM click c GROUP BY c.workspace_id, c.link_id, c.day
        ON CONFLICT (workspace_id, link_id, day) DO UPDATE SET clicks = t.clicks + excluded.clicks, bots = t.bots + excluded.bots,
            visitors = shortener.merge_two_visitors(t.visitors, excluded.visitors)
    ), into_breakdown AS (
        INSERT INTO shortener.click_day_breakdown AS t (workspace_id, link_id, day, dimension, value, clicks)
        SELECT c.workspace_id, c.link_id, c.day,
               CASE 0 WHEN grouping(c.referrer) THEN 'referrer' WHEN grouping(c.country) THEN 'country' WHEN grouping(c.city) THEN 'city'
                      WHEN grouping(c.device) THEN 'device' WHEN grouping(c.browser) THEN 'browser' ELSE 'os' END,
               coalesce(c.referrer, c.country, c.city, c.device, c.browser, c.os), count(*)
        FROM click c
        GROUP BY c.workspace_id, c.link_id, c.day, GROUPING SETS (c.referrer, c.country, c.city, c.device, c.browser, c.os)
        HAVING coalesce(c.referrer, c.country, c.city, c.device, c.browser, c.os) IS NOT NULL
        UNION ALL
        SELECT c.workspace_id, c.link_id, c.day, v.name, v.value, c.clicks
        FROM (SELECT workspace_id, link_id, day, count(*) AS clicks FROM click GROUP BY workspace_id, link_id, day) c
        JOIN shortener.link l ON l.workspace_id = c.workspace_id AND l.id = c.link_id AND l.original_url LIKE '%utm\_%'
        CROSS JOIN LATERAL (SELECT n.name, shortener.url_parameter(l.original_url, n.name) AS value
                            FROM unnest('{utm_source,utm_medium,utm_campaign}'::text[]) n (name)) v
        WHERE v.value IS NOT NULL
        ON CONFLICT (workspace_id, link_id, dimension, day, value) DO UPDATE SET clicks = t.clicks + excluded.clicks
    ), into_total AS (
        INSERT INTO shortener.click_total AS t (workspace_id, link_id, clicks, bots, last_click)
        SELECT c.workspace_id, c.link_id, count(*), count(*) FILTER (WHERE c.device = 'bot'), max(c.clicked_at)
        FROM click c GROUP BY c.workspace_id, c.link_id
        ON CONFLICT (workspace_id, link_id) DO UPDATE SET clicks = t.clicks + excluded.clicks, bots = t.bots + excluded.bots,
            last_click = greatest(t.last_click, excluded.last_click)
    )
    UPDATE shortener.click_rollup r SET last_run = clock_timestamp(), clicks = r.clicks + (SELECT count(*) FROM click);
    RETURN cardinality(chosen);
END $$;
COMMENT ON FUNCTION roll_up_clicks(integer) IS 'step of rollup_clicks(): counts so many rows of click_pending, and returns how many there were';

CREATE PROCEDURE rollup_clicks(batch_size integer = 100, max_duration interval = '5 minutes')
    LANGUAGE plpgsql
AS $$
-- It commits, so it can have no SET clause: each transaction sets search_path for itself, and its isolation level,
-- above which one that waited for another would fail.
DECLARE
    started constant pg_catalog.timestamptz := pg_catalog.clock_timestamp();
    caller_path constant pg_catalog.text := pg_catalog.current_setting('search_path'); -- for the rest of a transaction block
    commits constant boolean := shortener.can_commit(); -- else all is one transaction
    counted integer;
BEGIN
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    IF batch_size IS NULL OR batch_size NOT BETWEEN 1 AND 10000 THEN
        RAISE 'batch_size must be from 1 to 10000' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF max_duration IS NULL OR max_duration <= '0' THEN
        RAISE 'max_duration must be positive' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM shortener.require_install();
    IF pg_is_in_recovery() THEN
        RAISE NOTICE 'nothing to do on a standby: the primary''s counters arrive by replication';
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
        counted := shortener.roll_up_clicks(batch_size);
        EXIT WHEN counted < batch_size OR clock_timestamp() - started >= max_duration;
    END LOOP;
    PERFORM pg_catalog.set_config('search_path', caller_path, true);
END $$;
COMMENT ON PROCEDURE rollup_clicks(integer, interval) IS
    'counts the clicks that were recorded before it is called, batch_size rows of click_pending to a transaction';

-- The checks of what nobody should trust blindly: each counter against the raw clicks.
CREATE FUNCTION verify_rollups(since timestamptz = NULL) RETURNS TABLE (
    level text, workspace_id integer, link_id bigint, starts_at timestamptz, dimension text, value text,
    raw_clicks bigint, rolled_up_clicks bigint)
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
    SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    from_day date := (since AT TIME ZONE 'UTC')::date;
    from_hour timestamptz;
BEGIN
    PERFORM shortener.require_install();
    -- As far back as there are raw clicks and counters.
    SELECT greatest(from_day, e.first_month, d.first_month), greatest(from_day, e.first_month, h.first_month)::timestamp AT TIME ZONE 'UTC'
        INTO from_day, from_hour
        FROM (SELECT min(month) FROM shortener.month_partitions('click_event')) e (first_month)
        JOIN (SELECT min(month) FROM shortener.month_partitions('click_day')) d (first_month) ON e.first_month IS NOT NULL
        CROSS JOIN (SELECT min(month) FROM shortener.month_partitions('click_hour')) h (first_month);
    IF NOT FOUND THEN
        RETURN;
    END IF;
    RETURN QUERY
        WITH pending AS (
            SELECT p.workspace_id, c.*
            FROM shortener.click_pending p
            CROSS JOIN LATERAL unnest(p.link_ids, p.clicked_at, p.user_agent_ids, p.referrer_ids, p.place_ids)
                AS c (link_id, clicked_at, user_agent_id, referrer_id, place_id)
        ), event AS (
            SELECT e.workspace_id, e.link_id, e.clicked_at, e.user_agent_id, e.referrer_id, e.place_id, 1 AS clicks FROM shortener.click_event e
            UNION ALL
            SELECT e.workspace_id, e.link_id, e.clicked_at, e.user_agent_id, e.referrer_id, e.place_id, -1 FROM pending e
        ), click AS MATERIALIZED (
            SELECT e.workspace_id, e.link_id, date_trunc('hour', e.clicked_at, 'UTC') AS hour, (e.clicked_at AT TIME ZONE 'UTC')::date AS day,
                   e.clicks, coalesce(u.device, 'unknown') AS device, coalesce(u.browser, 'unknown') AS browser, coalesce(u.os, 'unknown') AS os, r.host AS referrer, p.country, p.city
            FROM event e
            LEFT JOIN shortener.user_agent u ON u.workspace_id = e.workspace_id AND u.id = e.user_agent_id
            LEFT JOIN shortener.referrer r ON r.workspace_id = e.workspace_id AND r.id = e.referrer_id
            LEFT JOIN shortener.place p ON p.workspace_id = e.workspace_id AND p.id = e.place_id
            WHERE e.clicked_at >= from_day::timestamp AT TIME ZONE 'UTC'
        ), raw AS (
            SELECT 'hour' AS level, c.workspace_id, c.link_id, c.hour AS starts_at, '' AS dimension, '' AS value, sum(c.clicks) AS clicks
            FROM click c WHERE c.hour >= from_hour GROUP BY c.workspace_id, c.link_id, c.hour
            UNION ALL
            SELECT 'day', c.workspace_id, c.link_id, c.day::timestamp AT TIME ZONE 'UTC', '', '', sum(c.clicks)
            FROM click c GROUP BY c.workspace_id, c.link_id, c.day
            UNION ALL
            SELECT 'day', c.workspace_id, c.link_id, c.day::timestamp AT TIME ZONE 'UTC',
                   CASE 0 WHEN grouping(c.referrer) THEN 'referrer' WHEN grouping(c.country) THEN 'country' WHEN grouping(c.city) THEN 'city'
                          WHEN grouping(c.device) THEN 'device' WHEN grouping(c.browser) THEN 'browser' ELSE 'os' END,
                   coalesce(c.referrer, c.country, c.city, c.device, c.browser, c.os), sum(c.clicks)
            FROM click c
            GROUP BY c.workspace_id, c.link_id, c.day, GROUPING SETS (c.referrer, c.country, c.city, c.device, c.browser, c.os)
            HAVING coalesce(c.referrer, c.country, c.city, c.device, c.browser, c.os) IS NOT NULL
        ), rolled_up AS (
            SELECT 'hour' AS level, h.workspace_id, h.link_id, h.hour AS starts_at, '' AS dimension, '' AS value, h.clicks
            FROM shortener.click_hour h WHERE h.hour >= from_hour
            UNION ALL
            SELECT 'day', d.workspace_id, d.link_id, d.day::timestamp AT TIME ZONE 'UTC', '', '', d.clicks
            FROM shortener.click_day d WHERE d.day >= from_day
            UNION ALL
            SELECT 'day', b.workspace_id, b.link_id, b.day::timestamp AT TIME ZONE 'UTC', b.dimension, b.value, b.clicks
            FROM shortener.click_day_breakdown b WHERE b.day >= from_day AND b.dimension NOT LIKE 'utm\_%' -- which the raw click has not
        )
        SELECT level, workspace_id, link_id, starts_at, nullif(dimension, ''), nullif(value, ''),
               coalesce(r.clicks, 0)::bigint, coalesce(u.clicks, 0)::bigint
        FROM raw r FULL JOIN rolled_up u USING (level, workspace_id, link_id, starts_at, dimension, value)
        WHERE coalesce(r.clicks, 0) <> coalesce(u.clicks, 0)
        ORDER BY level, workspace_id, link_id, starts_at, dimension, value;
END $$;
COMMENT ON FUNCTION verify_rollups(timestamptz) IS
    'counters that differ from the raw clicks that are no longer pending, as far back as both are kept; no row means that all agree';

REVOKE EXECUTE ON FUNCTION roll_up_clicks(integer), verify_rollups(timestamptz) FROM PUBLIC;
REVOKE EXECUTE ON PROCEDURE rollup_clicks(integer, interval) FROM PUBLIC;
