-- Statistics of clicks. Days and months are those of UTC. A code of NULL stands for all links of the workspace.

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
    PERFORM shortener.check_max_rows(max_rows);
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
    PERFORM shortener.check_max_rows(max_rows);
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
