-- Clicks: recording and removing them. The tables, and how a click goes through them, are in tables/clicks.sql.

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
            WHERE CASE WHEN octet_length(c.code) <= 50 THEN c.code ~ '^[A-Za-z0-9_-]+$' END
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

CREATE FUNCTION purge_clicks(code text, workspace text = NULL) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    wanted_workspace constant integer := shortener.workspace_id(workspace);
    wanted bigint;
    purged bigint;
BEGIN
    SELECT l.id INTO wanted FROM shortener.link l WHERE l.workspace_id = wanted_workspace AND l.short_code = purge_clicks.code;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    PERFORM FROM shortener.click_rollup FOR UPDATE; -- else it could count pending clicks meanwhile
    -- One statement: of a batch that is recorded meanwhile it sees all or nothing.
    WITH pending AS (
        UPDATE shortener.click_pending p
        SET (link_ids, clicked_at, user_agent_ids, referrer_ids, place_ids, visitors) = (
            SELECT coalesce(array_agg(c.link_id), '{}'), coalesce(array_agg(c.clicked_at), '{}'), coalesce(array_agg(c.user_agent_id), '{}'),
                   coalesce(array_agg(c.referrer_id), '{}'), coalesce(array_agg(c.place_id), '{}'), coalesce(array_agg(c.visitor), '{}')
            FROM unnest(p.link_ids, p.clicked_at, p.user_agent_ids, p.referrer_ids, p.place_ids, p.visitors)
                AS c (link_id, clicked_at, user_agent_id, referrer_id, place_id, visitor)
            WHERE c.link_id <> wanted)
        WHERE p.workspace_id = wanted_workspace AND wanted = ANY (p.link_ids)
    ),
    raw AS (DELETE FROM shortener.click_event t WHERE t.workspace_id = wanted_workspace AND t.link_id = wanted),
    hours AS (DELETE FROM shortener.click_hour t WHERE t.workspace_id = wanted_workspace AND t.link_id = wanted),
    days AS (DELETE FROM shortener.click_day t WHERE t.workspace_id = wanted_workspace AND t.link_id = wanted),
    months AS (DELETE FROM shortener.click_month t WHERE t.workspace_id = wanted_workspace AND t.link_id = wanted),
    day_breakdown AS (DELETE FROM shortener.click_day_breakdown t WHERE t.workspace_id = wanted_workspace AND t.link_id = wanted),
    month_breakdown AS (DELETE FROM shortener.click_month_breakdown t WHERE t.workspace_id = wanted_workspace AND t.link_id = wanted),
    total AS (DELETE FROM shortener.click_total t WHERE t.workspace_id = wanted_workspace AND t.link_id = wanted RETURNING t.clicks)
    SELECT coalesce((SELECT sum(t.clicks) FROM total t), 0)
           + (SELECT count(*) FROM shortener.click_pending p CROSS JOIN LATERAL unnest(p.link_ids) l (id)
              WHERE p.workspace_id = wanted_workspace AND l.id = wanted)
        INTO purged;
    RETURN purged;
END $$;
COMMENT ON FUNCTION purge_clicks(text, text) IS
    'removes all clicks of a link, raw and counted, and returns how many; reads all raw clicks, which have no index';

REVOKE EXECUTE ON FUNCTION record_clicks(uuid, bigint[], timestamptz[], inet[], text[], text[], bigint[]),
    record_unknown_codes(uuid, text[], text[]), purge_clicks(text, text) FROM PUBLIC;
