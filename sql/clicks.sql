-- Clicks: recording, counting, upkeep and statistics. The tables, and how a click goes through them, are in
-- tables/clicks.sql.

-- Visitors are counted by hll. Where that extension is, is known only now: what is used of it later is bound here.
-- Within 2 % at any number, exact up to 256.

CREATE FUNCTION visitor_key(visitor bigint) RETURNS hll_hashval
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN visitor::hll_hashval;
COMMENT ON FUNCTION visitor_key(bigint) IS 'hash of a visitor as hll takes it';

CREATE AGGREGATE add_visitors(hll_hashval, integer, integer, bigint, integer) (
    SFUNC = hll_add_trans4, STYPE = internal, SSPACE = 131120, FINALFUNC = hll_pack);
COMMENT ON AGGREGATE add_visitors(hll_hashval, integer, integer, bigint, integer) IS 'hll_add_agg of hll, wherever it is';

CREATE AGGREGATE merge_visitors(hll) (
    SFUNC = hll_union_trans, STYPE = internal, FINALFUNC = hll_pack);
COMMENT ON AGGREGATE merge_visitors(hll) IS 'merges the distinct visitors of several counters; visitor_count() returns how many there are';

CREATE FUNCTION merge_two_visitors(a hll, b hll) RETURNS hll
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN coalesce(hll_union(a, b), a, b);
COMMENT ON FUNCTION merge_two_visitors(hll, hll) IS 'distinct visitors of two counters together; NULL is none';

CREATE FUNCTION visitor_count(visitors hll) RETURNS bigint
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN round(hll_cardinality(visitors))::bigint;
COMMENT ON FUNCTION visitor_count(hll) IS 'number of distinct visitors in a counter';

-- Recording

CREATE FUNCTION record_clicks(batch_id uuid, link_ids bigint[], clicked_at timestamptz[], ips inet[] = NULL,
                              user_agents text[] = NULL, referers text[] = NULL, workspace_ids bigint[] = NULL) RETURNS bigint
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'shortener_record_clicks';
COMMENT ON FUNCTION record_clicks(uuid, bigint[], timestamptz[], inet[], text[], text[], bigint[]) IS
    'records clicks, one per position of the arrays, and returns how many; a batch that is sent again is not recorded again; with workspace_ids, as resolve() returns them, no workspace needs to be searched for';

CREATE FUNCTION record_unknown_codes(batch_id uuid, codes text[], hosts text[] = NULL) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    today constant date := (now() AT TIME ZONE 'UTC')::date;
    most constant integer := 1000; -- a workspace and day
    default_id constant integer := shortener.workspace_id(NULL);
BEGIN
    IF batch_id IS NULL OR codes IS NULL THEN
        RAISE 'batch_id and codes must not be null' USING ERRCODE = 'null_value_not_allowed';
    END IF;
    INSERT INTO shortener.click_batch (id, received_at, clicks, unknown_links, refused) VALUES (batch_id, now(), 0, 0, 0)
        ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    INSERT INTO shortener.unknown_code AS u (workspace_id, day, host, code, visits)
        WITH visit AS (
            SELECT coalesce(d.workspace_id, default_id) AS workspace_id, coalesce(d.host, '') AS host, c.code, count(*) AS visits
            FROM ROWS FROM (unnest(codes), unnest(hosts)) AS c (code, host)
            LEFT JOIN shortener.domain d ON d.host = shortener.host_from_header(c.host)
            WHERE c.code ~ '^[A-Za-z0-9_-]{1,50}$'
            GROUP BY 1, 2, 3
        ), ranked AS (
            SELECT v.*, k.code IS NOT NULL AS is_known,
                   row_number() OVER (PARTITION BY v.workspace_id, k.code IS NOT NULL ORDER BY v.visits DESC, v.host, v.code) AS rank
            FROM visit v
            LEFT JOIN shortener.unknown_code k ON k.workspace_id = v.workspace_id AND k.day = today AND k.host = v.host AND k.code = v.code
        ), present AS (
            SELECT w.workspace_id, count(k.code) AS codes
            FROM (SELECT DISTINCT v.workspace_id FROM visit v) w
            LEFT JOIN shortener.unknown_code k ON k.workspace_id = w.workspace_id AND k.day = today
            GROUP BY w.workspace_id
        ), kept AS (
            SELECT r.workspace_id, r.host, CASE WHEN r.is_known OR r.rank <= most - p.codes THEN r.code ELSE '' END AS code, r.visits
            FROM ranked r JOIN present p USING (workspace_id)
        )
        SELECT k.workspace_id, today, k.host, k.code, sum(k.visits) FROM kept k
        GROUP BY k.workspace_id, k.host, k.code ORDER BY k.workspace_id, k.host, k.code
        ON CONFLICT ON CONSTRAINT unknown_code_pkey DO UPDATE SET visits = u.visits + excluded.visits;
    RETURN cardinality(codes);
END $$;
COMMENT ON FUNCTION record_unknown_codes(uuid, text[], text[]) IS
    'counts visits of codes that do not exist, by day and host; a batch that is sent again is not counted again';

-- Counting

CREATE FUNCTION can_commit() RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'shortener_can_commit';
COMMENT ON FUNCTION can_commit() IS 'whether the calling procedure may COMMIT: not inside a transaction block or a function';

CREATE FUNCTION url_parameter(url text, name text) RETURNS text
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'shortener_url_parameter';
COMMENT ON FUNCTION url_parameter(text, text) IS
    'first value of that name in the query of a canonical URL, decoded, cut at 100 bytes; NULL if there is none or it is empty';

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
    PERFORM shortener.lock_for_job('click_pending', 'click_hour', 'click_day', 'click_day_breakdown', 'click_total', 'click_rollup');
    PERFORM FROM shortener.click_rollup FOR UPDATE; -- one at a time: two would meet at the same counters
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
    started constant timestamptz := pg_catalog.clock_timestamp();
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

-- Upkeep

CREATE FUNCTION require_owner() RETURNS void
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    owner name;
BEGIN
    PERFORM shortener.require_install();
    SELECT pg_get_userbyid(c.relowner) INTO owner FROM pg_class c WHERE c.oid = 'shortener.click_rollup'::regclass;
    IF owner <> current_user THEN
        RAISE 'must be the owner of the tables of shortener' USING ERRCODE = 'insufficient_privilege',
            HINT = format('Connect as role %I and call it there.', owner);
    END IF;
END $$;
COMMENT ON FUNCTION require_owner() IS 'raises an error unless the caller owns the tables, also for a superuser, who must not run what another owner has added to them';

-- A partition is known by its name: those that somebody attached under other names are left alone.
CREATE FUNCTION month_partitions(parent name) RETURNS TABLE (partition name, month date)
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN QUERY
        SELECT c.relname, to_date(right(c.relname, 8), '"y"YYYY"m"MM')
        FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = format('shortener.%I', month_partitions.parent)::regclass AND NOT i.inhdetachpending
          AND starts_with(c.relname, month_partitions.parent || '_y') AND right(c.relname, 8) ~ '^y\d{4}m\d\d$'
        ORDER BY 2;
END $$;
COMMENT ON FUNCTION month_partitions(name) IS 'partitions of a table that is partitioned by month, with the month of each (UTC)';

CREATE FUNCTION make_month_partition(parent name, month date) RETURNS void
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    wanted constant name := parent || to_char(month, '"_y"YYYY"m"MM');
BEGIN
    IF EXISTS (SELECT FROM shortener.month_partitions(parent) p WHERE p.partition = wanted) THEN
        RETURN;
    END IF;
    -- ATTACH lets others read and write the table meanwhile, CREATE TABLE ... PARTITION OF does not. Raw clicks and
    -- the audit are only appended; counters are updated, on the same page if it has room.
    EXECUTE format('CREATE TABLE shortener.%I (LIKE shortener.%I INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE) WITH (%s)',
        wanted, parent, CASE WHEN parent IN ('click_event', 'link_audit') THEN 'autovacuum_vacuum_insert_scale_factor = 0.05' ELSE 'fillfactor = 80' END);
    EXECUTE format('ALTER TABLE shortener.%I ENABLE ROW LEVEL SECURITY', wanted); -- not to be read but through the table
    EXECUTE format('ALTER TABLE shortener.%I ATTACH PARTITION shortener.%I FOR VALUES FROM (%L) TO (%L)', parent, wanted,
        to_char(month, 'YYYY-MM-"01 00:00+00"'), to_char(month + interval '1 month', 'YYYY-MM-"01 00:00+00"'));
END $$;
COMMENT ON FUNCTION make_month_partition(name, date) IS 'makes the partition of a month, if it is not there';

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
    PERFORM shortener.lock_for_job('click_month', 'click_month_breakdown', 'click_rollup');
    PERFORM FROM shortener.click_rollup FOR UPDATE; -- so that nobody counts meanwhile
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
    commits constant boolean := shortener.can_commit();
    today constant date := (pg_catalog.now() AT TIME ZONE 'UTC')::date;
    step integer := 0;
    old_parent name := '';
    old_partition name;
    old_month date := date '-infinity';
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
        EXCEPTION WHEN lock_not_available THEN
            RAISE WARNING 'a step of maintain_clicks is left to the next run, because a table was in use for longer than lock_timeout';
        END;
    END LOOP;
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
    PERFORM shortener.lock_for_job('click_salt');
    -- A new file instead of a deletion, which would leave the salts where they are until they are written over.
    LOCK TABLE shortener.click_salt IN ACCESS EXCLUSIVE MODE;
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
    PERFORM shortener.lock_for_job('user_agent', 'referrer', 'place', 'click_batch', 'unknown_code', 'click_month', 'click_month_breakdown');
    DELETE FROM shortener.user_agent d WHERE d.last_seen < unused_since;
    DELETE FROM shortener.referrer d WHERE d.last_seen < unused_since;
    DELETE FROM shortener.place d WHERE d.last_seen < unused_since;
    DELETE FROM shortener.click_batch b WHERE b.received_at < now() - interval '7 days';
    DELETE FROM shortener.unknown_code u WHERE u.day < now() AT TIME ZONE 'UTC' - interval '90 days';
    DELETE FROM shortener.click_month m WHERE m.month + interval '1 month' <= months_since;
    DELETE FROM shortener.click_month_breakdown m WHERE m.month + interval '1 month' <= months_since;
END $$;
COMMENT ON PROCEDURE prune_click_dictionaries(date, date) IS 'step of maintain_clicks()';

CREATE FUNCTION purge_clicks(code text, workspace text = NULL) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    wanted_workspace constant integer := shortener.workspace_id(workspace);
    wanted bigint;
    purged bigint;
    counters name;
BEGIN
    SELECT l.id INTO wanted FROM shortener.link l WHERE l.workspace_id = wanted_workspace AND l.short_code = purge_clicks.code;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    PERFORM FROM shortener.click_rollup FOR UPDATE; -- else it could count pending clicks meanwhile
    SELECT count(*) INTO purged FROM shortener.click_pending p CROSS JOIN LATERAL unnest(p.link_ids) l (id)
        WHERE p.workspace_id = wanted_workspace AND l.id = wanted;
    UPDATE shortener.click_pending p
        SET (link_ids, clicked_at, user_agent_ids, referrer_ids, place_ids, visitors) = (
            SELECT coalesce(array_agg(c.link_id), '{}'), coalesce(array_agg(c.clicked_at), '{}'), coalesce(array_agg(c.user_agent_id), '{}'),
                   coalesce(array_agg(c.referrer_id), '{}'), coalesce(array_agg(c.place_id), '{}'), coalesce(array_agg(c.visitor), '{}')
            FROM unnest(p.link_ids, p.clicked_at, p.user_agent_ids, p.referrer_ids, p.place_ids, p.visitors)
                AS c (link_id, clicked_at, user_agent_id, referrer_id, place_id, visitor)
            WHERE c.link_id <> wanted)
        WHERE p.workspace_id = wanted_workspace AND wanted = ANY (p.link_ids);
    SELECT purged + coalesce(sum(t.clicks), 0) INTO purged FROM shortener.click_total t
        WHERE t.workspace_id = wanted_workspace AND t.link_id = wanted;
    FOREACH counters IN ARRAY '{click_event,click_hour,click_day,click_month,click_day_breakdown,click_month_breakdown,click_total}'::name[] LOOP
        EXECUTE format('DELETE FROM shortener.%I WHERE workspace_id = $1 AND link_id = $2', counters) USING wanted_workspace, wanted;
    END LOOP;
    RETURN purged;
END $$;
COMMENT ON FUNCTION purge_clicks(text, text) IS
    'removes all clicks of a link, raw and counted, and returns how many; reads all raw clicks, which have no index';

-- Statistics. Days and months are those of UTC. A code of NULL stands for all links of the workspace.

CREATE FUNCTION click_series(code text, bucket text = 'day', since timestamptz = NULL, until timestamptz = NULL, workspace text = NULL)
    RETURNS TABLE (starts_at timestamptz, clicks bigint, unique_visitors bigint, bots bigint)
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
    SET plan_cache_mode = force_custom_plan -- one link and all links want different plans
AS $$
#variable_conflict use_column
DECLARE
    wanted_workspace constant integer := shortener.workspace_id(workspace);
    wanted constant bigint := (SELECT l.id FROM shortener.link l WHERE l.workspace_id = wanted_workspace AND l.short_code = click_series.code);
    first_bucket timestamptz := coalesce(since, '-infinity');
BEGIN
    IF bucket IS NULL OR bucket NOT IN ('hour', 'day', 'month') THEN
        RAISE 'bucket must be hour, day or month' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF isfinite(first_bucket) THEN
        first_bucket := date_trunc(bucket, first_bucket, 'UTC');
    END IF;
    IF wanted IS NULL AND code IS NOT NULL THEN
        RETURN;
    END IF;
    IF bucket = 'hour' THEN
        RETURN QUERY
            SELECT h.hour, sum(h.clicks), coalesce(shortener.visitor_count(shortener.merge_visitors(h.visitors)), 0), sum(h.bots)
            FROM shortener.click_hour h
            WHERE h.workspace_id = wanted_workspace AND (h.link_id = wanted OR wanted IS NULL)
              AND h.hour >= first_bucket AND h.hour < coalesce(until, 'infinity')
            GROUP BY h.hour ORDER BY h.hour;
    ELSE
        RETURN QUERY
            SELECT date_trunc(click_series.bucket, c.day::timestamp) AT TIME ZONE 'UTC' AS starts_at, sum(c.clicks)::bigint,
                   coalesce(shortener.visitor_count(shortener.merge_visitors(c.visitors)), 0), sum(c.bots)::bigint
            FROM (SELECT d.day, d.clicks, d.bots, d.visitors FROM shortener.click_day d
                  WHERE d.workspace_id = wanted_workspace AND (d.link_id = wanted OR wanted IS NULL)
                    AND d.day >= (first_bucket AT TIME ZONE 'UTC')::date
                    AND d.day < coalesce(until AT TIME ZONE 'UTC', 'infinity')
                  UNION ALL
                  SELECT m.month, m.clicks, m.bots, m.visitors FROM shortener.click_month m
                  WHERE click_series.bucket = 'month' AND m.workspace_id = wanted_workspace AND (m.link_id = wanted OR wanted IS NULL)
                    AND m.month >= (first_bucket AT TIME ZONE 'UTC')::date
                    AND m.month < coalesce(until AT TIME ZONE 'UTC', 'infinity')) c
            GROUP BY 1 ORDER BY 1;
    END IF;
END $$;
COMMENT ON FUNCTION click_series(text, text, timestamptz, timestamptz, text) IS
    'clicks by hour, day or month, of the buckets that have any; bots are among the clicks, not among the visitors; a visitor who comes on two days counts twice';

CREATE FUNCTION click_breakdown(code text, dimension text, since timestamptz = NULL, until timestamptz = NULL, max_rows integer = 20,
                                workspace text = NULL)
    RETURNS TABLE (value text, clicks bigint)
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
    SET plan_cache_mode = force_custom_plan
AS $$
#variable_conflict use_column
DECLARE
    wanted_workspace constant integer := shortener.workspace_id(workspace);
    wanted constant bigint := (SELECT l.id FROM shortener.link l WHERE l.workspace_id = wanted_workspace AND l.short_code = click_breakdown.code);
    first_day constant date := coalesce(since AT TIME ZONE 'UTC', '-infinity')::date;
    last_moment constant timestamp := coalesce(until AT TIME ZONE 'UTC', 'infinity');
BEGIN
    IF dimension IS NULL OR dimension NOT IN ('referrer', 'country', 'city', 'device', 'browser', 'os', 'utm_source', 'utm_medium', 'utm_campaign') THEN
        RAISE 'dimension must be referrer, country, city, device, browser, os, utm_source, utm_medium or utm_campaign'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF wanted IS NULL AND code IS NOT NULL THEN
        RETURN;
    END IF;
    RETURN QUERY
        WITH part AS (
            SELECT b.value, b.clicks::bigint AS clicks FROM shortener.click_day_breakdown b
            WHERE b.workspace_id = wanted_workspace AND (b.link_id = wanted OR wanted IS NULL) AND b.dimension = click_breakdown.dimension
              AND b.day >= first_day AND b.day < last_moment
            UNION ALL
            SELECT b.value, b.clicks FROM shortener.click_month_breakdown b
            WHERE b.workspace_id = wanted_workspace AND (b.link_id = wanted OR wanted IS NULL) AND b.dimension = click_breakdown.dimension
              AND b.month >= first_day AND b.month < last_moment
        ), total AS (
            SELECT d.clicks::bigint AS clicks FROM shortener.click_day d
            WHERE d.workspace_id = wanted_workspace AND (d.link_id = wanted OR wanted IS NULL) AND d.day >= first_day AND d.day < last_moment
            UNION ALL
            SELECT m.clicks FROM shortener.click_month m
            WHERE m.workspace_id = wanted_workspace AND (m.link_id = wanted OR wanted IS NULL) AND m.month >= first_day AND m.month < last_moment
        )
        SELECT v.value, v.clicks
        FROM (SELECT p.value, sum(p.clicks)::bigint AS clicks FROM part p GROUP BY p.value
              UNION ALL
              SELECT NULL, (coalesce((SELECT sum(t.clicks) FROM total t), 0) - coalesce((SELECT sum(p.clicks) FROM part p), 0))::bigint) v
        WHERE v.clicks > 0
        ORDER BY v.clicks DESC, v.value
        LIMIT max_rows;
END $$;
COMMENT ON FUNCTION click_breakdown(text, text, timestamptz, timestamptz, integer, text) IS
    'clicks by referrer, country, city, device, browser, os, utm_source, utm_medium or utm_campaign, most clicks first; NULL is unknown or none';

CREATE FUNCTION top_links(workspace text = NULL, since timestamptz = NULL, max_rows integer = 10, until timestamptz = NULL)
    RETURNS TABLE (short_code text, original_url text, title text, clicks bigint, unique_visitors bigint, bots bigint)
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    wanted_workspace constant integer := shortener.workspace_id(workspace);
    first_day constant date := coalesce(since AT TIME ZONE 'UTC', '-infinity')::date;
    last_moment constant timestamp := coalesce(until AT TIME ZONE 'UTC', 'infinity');
BEGIN
    RETURN QUERY
        WITH part AS (
            SELECT d.link_id, d.clicks::bigint AS clicks, d.bots::bigint AS bots, d.visitors FROM shortener.click_day d
            WHERE d.workspace_id = wanted_workspace AND d.day >= first_day AND d.day < last_moment
            UNION ALL
            SELECT m.link_id, m.clicks, m.bots, m.visitors FROM shortener.click_month m
            WHERE m.workspace_id = wanted_workspace AND m.month >= first_day AND m.month < last_moment
        ), top AS (
            SELECT p.link_id, sum(p.clicks)::bigint AS clicks, sum(p.bots)::bigint AS bots
            FROM part p JOIN shortener.link l ON l.workspace_id = wanted_workspace AND l.id = p.link_id
            GROUP BY p.link_id ORDER BY 2 DESC, 1 LIMIT max_rows
        )
        SELECT l.short_code::text, l.original_url, l.title, t.clicks, coalesce(v.visitors, 0), t.bots
        FROM top t
        JOIN shortener.link l ON l.workspace_id = wanted_workspace AND l.id = t.link_id
        CROSS JOIN LATERAL (SELECT shortener.visitor_count(shortener.merge_visitors(p.visitors)) AS visitors FROM part p WHERE p.link_id = t.link_id) v
        ORDER BY t.clicks DESC, t.link_id;
END $$;
COMMENT ON FUNCTION top_links(text, timestamptz, integer, timestamptz) IS
    'links with the most clicks in a range of days (UTC), by default in all for which counters are kept';

REVOKE EXECUTE ON FUNCTION record_clicks(uuid, bigint[], timestamptz[], inet[], text[], text[], bigint[]), record_unknown_codes(uuid, text[], text[]),
    roll_up_clicks(integer), verify_rollups(timestamptz), make_month_partition(name, date), drop_click_partition(name, name, date),
    purge_clicks(text, text) FROM PUBLIC;
REVOKE EXECUTE ON PROCEDURE rollup_clicks(integer, interval), maintain_clicks(interval, interval, interval, interval, interval),
    make_click_partitions(interval, interval), destroy_click_salts(date), prune_click_dictionaries(date, date) FROM PUBLIC;
