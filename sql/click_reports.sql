-- Pictures of clicks: a chart as SVG and a report as one HTML page. Both are drawn by plain functions of numbers and
-- texts, follow the light or dark scheme of the reader, and hold neither scripts nor references to other files.

CREATE FUNCTION escape_html(value text) RETURNS text
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp
    RETURN replace(replace(replace(replace(replace(
        regexp_replace(value, '[\x01-\x08\x0B\x0C\x0E-\x1F\x7F]', ' ', 'g'),
        '&', '&amp;'), '<', '&lt;'), '>', '&gt;'), '"', '&quot;'), '''', '&#39;');
COMMENT ON FUNCTION escape_html(text) IS
    'text for HTML and XML, in elements and in quoted attributes; control characters, which XML forbids, become spaces';

CREATE FUNCTION chart_step(largest numeric) RETURNS numeric
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT power * (SELECT min(digit) FROM unnest('{1,2,5,10}'::numeric[]) digit WHERE digit * power * 5 >= largest)
    FROM (SELECT 10 ^ floor(log(greatest(largest / 5, 1))) AS power) p
$$;
COMMENT ON FUNCTION chart_step(numeric) IS 'distance between the lines of an axis on which five of them suffice to reach a number';

CREATE FUNCTION chart_number(value numeric, largest numeric) RETURNS text
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp
    RETURN CASE
        WHEN value = 0 OR largest < 1e4 THEN to_char(value, 'FM9,990')
        WHEN largest < 1e6 THEN trim_scale(value / 1e3) || 'k'
        WHEN largest < 1e9 THEN trim_scale(value / 1e6) || 'M'
        ELSE trim_scale(value / 1e9) || 'G'
    END;
COMMENT ON FUNCTION chart_number(numeric, numeric) IS 'label of a number on an axis that ends at the largest';

CREATE FUNCTION chart_style() RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT '.chart{--surface:#fff;--text:#1f2937;--muted:#5b6472;--grid:#e2e5ea;--clicks:#3b7dd8;--visitors:#c2500a;'
        'display:block;width:100%;max-width:960px;height:auto;font-family:system-ui,sans-serif;font-size:13px}'
        '@media(prefers-color-scheme:dark){.chart{--surface:#16181d;--text:#e6e8ec;--muted:#a3abb8;--grid:#343944;'
        '--clicks:#5b9bf0;--visitors:#f7a654}}'
        '.chart .surface{fill:var(--surface)}.chart text{fill:var(--muted)}.chart .key{fill:var(--text)}'
        '.chart .grid{stroke:var(--grid)}.chart .clicks{fill:var(--clicks)}.chart .hit{fill:transparent}'
        '.chart g:hover .hit{fill:var(--grid);fill-opacity:.5}'
        '.chart polyline{fill:none;stroke-linejoin:round;vector-effect:non-scaling-stroke}'
        '.chart .halo{stroke:var(--surface);stroke-width:5}.chart .visitors{stroke:var(--visitors);stroke-width:2}'
        '.chart .dot{fill:var(--visitors);stroke:var(--surface);stroke-width:1.5}'
        -- The picture shrinks with the screen; its letters do not.
        '@media(max-width:700px){.chart{font-size:19px}.chart .odd{display:none}}'
        '@media(max-width:460px){.chart{font-size:27px}}'
$$;
COMMENT ON FUNCTION chart_style() IS 'style sheet of chart_svg';

-- The plot lies between 76 and 760 across and between 52 and 262 down.
CREATE FUNCTION chart_svg(title text, bucket text, starts timestamp[], clicks bigint[], visitors bigint[]) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp
AS $$
    WITH largest AS (
        SELECT greatest(max(u.c), max(u.v), 1)::numeric AS value, 684.0 / greatest(count(*), 1) AS width
        FROM unnest(clicks, visitors) AS u (c, v)
    ), axis AS (
        SELECT l.width, s.step, ceil(l.value / s.step) AS lines, 210 / (s.step * ceil(l.value / s.step)) AS scale
        FROM largest l CROSS JOIN LATERAL (SELECT shortener.chart_step(l.value) AS step) s
    ), grid AS (
        SELECT string_agg(format('<line class="grid" x1="76" x2="760" y1="%1$s" y2="%1$s"/>'
                                 '<text x="70" y="%1$s" dy=".35em" text-anchor="end">%2$s</text>',
                                 round(262 - n * a.step * a.scale, 1), shortener.chart_number(n * a.step, a.lines * a.step)), '' ORDER BY n) AS svg
        FROM axis a, generate_series(0, a.lines) n
    ), point AS (
        SELECT p.*, round(76 + (p.number - 0.5) * a.width, 2) AS x, round(262 - p.visitors * a.scale, 1) AS y,
               round(p.clicks * a.scale, 1) AS height, round(a.width / 2, 2) AS reach, round(least(a.width / 3, 24), 2) AS half
        FROM axis a, unnest(starts, clicks, visitors) WITH ORDINALITY AS p (start, clicks, visitors, number)
    ), columns AS (
        SELECT string_agg(format('<g><title>%s: %s clicks, %s visitors</title>'
                                 '<rect class="hit" x="%s" y="52" width="%s" height="210"/>'
                                 '<rect class="clicks" x="%s" y="%s" width="%s" height="%s"/></g>',
                                 to_char(p.start, CASE bucket WHEN 'month' THEN 'Mon YYYY' WHEN 'hour' THEN 'YYYY-MM-DD HH24:MI'
                                                  ELSE 'YYYY-MM-DD' END), p.clicks, p.visitors,
                                 p.x - p.reach, 2 * p.reach, p.x - p.half, 262 - p.height, 2 * p.half, p.height),
                          '' ORDER BY p.number) AS svg
        FROM point p
    ), line AS (
        SELECT format('<polyline class="halo" points="%1$s"/><polyline class="visitors" points="%1$s"/>',
                      string_agg(p.x || ',' || p.y, ' ' ORDER BY p.number))
               || CASE WHEN count(*) <= 31 THEN
                      string_agg(format('<circle class="dot" cx="%s" cy="%s" r="3.5"/>', p.x, p.y), '' ORDER BY p.number)
                  ELSE '' END AS svg
        FROM point p
    ), place AS ( -- of hours, those that divide the day; of many days, the first of each month
        SELECT p.x, p.start, row_number() OVER (ORDER BY p.number) - 1 AS place, ceil(count(*) OVER () / 8.0) AS every,
               count(*) OVER () AS places
        FROM point p
        WHERE CASE bucket
            WHEN 'hour' THEN mod(extract(hour FROM p.start),
                                 CASE WHEN cardinality(starts) <= 8 THEN 1 WHEN cardinality(starts) <= 50 THEN 6 ELSE 24 END) = 0
            WHEN 'day' THEN cardinality(starts) <= 100 OR extract(day FROM p.start) = 1
            ELSE true END
    ), labels AS ( -- at most eight; of more than four, small screens show every other one
        SELECT string_agg(format('<text%s x="%s" y="298" text-anchor="middle">%s</text>',
                                 CASE WHEN ceil(p.places / p.every) > 4 AND mod(p.place / p.every, 2) = 1 THEN ' class="odd"' END, p.x,
                                 to_char(p.start, CASE WHEN bucket = 'month' OR bucket = 'day' AND cardinality(starts) > 300 THEN 'Mon YYYY'
                                                  WHEN extract(hour FROM p.start) = 0 THEN 'FMDD Mon' ELSE 'HH24:MI' END)),
                          '' ORDER BY p.place) AS svg
        FROM place p WHERE mod(p.place, p.every) = 0
    )
    SELECT concat('<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 800 310" role="img"><title>',
                  shortener.escape_html(title), '</title><style>', shortener.chart_style(), '</style>'
                  '<rect class="surface" width="800" height="310" rx="8"/>'
                  '<rect class="clicks" x="76" y="14" width="14" height="14" rx="2"/><text class="key" x="96" y="26">Clicks ',
                  (SELECT to_char(coalesce(sum(c), 0), 'FM999,999,999,999,990') FROM unnest(clicks) c), '</text>'
                  '<circle class="dot" cx="407" cy="21" r="6"/><text class="key" x="420" y="26">Visitors</text>',
                  grid.svg, columns.svg, line.svg, labels.svg, '</svg>')
    FROM grid, columns, line, labels
$$;
COMMENT ON FUNCTION chart_svg(text, text, timestamp[], bigint[], bigint[]) IS
    'SVG of clicks (columns) and visitors (line) by the starts of hours, days or months in UTC';

CREATE FUNCTION report_style() RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT ':root{--text:#1f2937;--muted:#5b6472;--surface:#fff;--page:#f3f4f7;--bar:#c9ddf7}'
        '@media(prefers-color-scheme:dark){:root{--text:#e6e8ec;--muted:#a3abb8;--surface:#16181d;--page:#0c0d10;--bar:#244a7c}}'
        '*{box-sizing:border-box}body{margin:0 auto;padding:16px;max-width:992px;background:var(--page);color:var(--text);'
        'font:16px/1.45 system-ui,sans-serif}'
        'h1{font-size:26px;margin:8px 0 0;overflow-wrap:anywhere}h2{font-size:17px;margin:0 0 8px}'
        'p,span,dt{color:var(--muted)}p{margin:4px 0 16px}dl{display:flex;flex-wrap:wrap;gap:8px 32px;margin:0 0 16px}'
        'dl div{display:flex;flex-direction:column-reverse}dd{margin:0;font-size:24px}dt{font-size:14px}'
        'main{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,300px),1fr));gap:16px;margin-top:16px}'
        'section{background:var(--surface);border-radius:8px;padding:16px;min-width:0}section:first-child{grid-column:1/-1}'
        'table{width:100%;border-collapse:collapse;font-size:15px}th{position:relative;width:100%;padding:5px 8px;font-weight:400;'
        'text-align:left;overflow-wrap:anywhere}'
        'td{padding:5px 0 5px 12px;text-align:right;vertical-align:top;font-variant-numeric:tabular-nums}'
        'i{position:absolute;inset:2px auto 2px 0;background:var(--bar);border-radius:3px}'
        'th bdi,th span{position:relative;z-index:1}'
        '@media print{body{background:none;padding:0}section{break-inside:avoid}}'
$$;
COMMENT ON FUNCTION report_style() IS 'style sheet of click_report';

CREATE FUNCTION chart_of_clicks(title text, code text, bucket text, since timestamptz, until timestamptz, workspace text)
    RETURNS text
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    most_columns constant integer := 1000;
    width constant interval := CASE bucket WHEN 'hour' THEN interval '1 hour' WHEN 'day' THEN '1 day' WHEN 'month' THEN '1 month' END;
BEGIN
    IF since >= until THEN
        RAISE 'since must be earlier than until' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF since < until - most_columns * width THEN
        RAISE 'a chart can have at most % columns', most_columns USING ERRCODE = 'program_limit_exceeded',
            HINT = 'Choose a larger bucket or a shorter time.';
    END IF;
    RETURN (
        SELECT shortener.chart_svg(title, bucket, array_agg(b.start ORDER BY b.start),
                                   array_agg(coalesce(s.clicks, 0) ORDER BY b.start),
                                   array_agg(coalesce(s.unique_visitors, 0) ORDER BY b.start))
        FROM generate_series(date_trunc(bucket, since AT TIME ZONE 'UTC'),
                             until AT TIME ZONE 'UTC' - interval '1 microsecond', width) AS b (start)
        LEFT JOIN shortener.click_series(code, bucket, since, until, workspace) s ON s.starts_at = b.start AT TIME ZONE 'UTC');
END $$;
COMMENT ON FUNCTION chart_of_clicks(text, text, text, timestamptz, timestamptz, text) IS
    'chart of click_series, with the buckets that have no clicks; a code of NULL means the whole workspace';

CREATE FUNCTION click_chart(code text, bucket text = 'day', since timestamptz = NULL, until timestamptz = NULL,
                            workspace text = NULL)
    RETURNS text
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    last constant timestamptz := coalesce(until, now());
    usual constant interval := CASE bucket WHEN 'hour' THEN interval '2 days' WHEN 'day' THEN '30 days' WHEN 'month' THEN '1 year' END;
BEGIN
    IF usual IS NULL THEN
        RAISE 'bucket must be hour, day or month' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF NOT EXISTS (SELECT FROM shortener.link l
                   WHERE l.workspace_id = shortener.workspace_id(click_chart.workspace) AND l.short_code = click_chart.code) THEN
        RETURN NULL;
    END IF;
    RETURN shortener.chart_of_clicks('Clicks on ' || code, code, bucket, coalesce(since, last - usual), last, workspace);
END $$;
COMMENT ON FUNCTION click_chart(text, text, timestamptz, timestamptz, text) IS
    'SVG picture of click_series: clicks and visitors of a link by hour, day or month (UTC); NULL if there is no such link';

CREATE FUNCTION report_table(caption text, labels text[], clicks bigint[]) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT concat('<section><h2>', shortener.escape_html(caption), '</h2><table>',
        string_agg(format('<tr><th scope="row">%s<i style="width:%s%%"></i></th><td>%s</td></tr>', r.label,
            round(100.0 * r.clicks / greatest(m.most, 1), 1), to_char(r.clicks, 'FM999,999,999,999,990')), '' ORDER BY r.number)
            FILTER (WHERE r.number IS NOT NULL),
        '</table>', CASE WHEN count(r.number) = 0 THEN '<p>None.</p>' END, '</section>')
    FROM (SELECT max(c) AS most FROM unnest(clicks) c) m
    LEFT JOIN unnest(labels, clicks) WITH ORDINALITY AS r (label, clicks, number) ON true
$$;
COMMENT ON FUNCTION report_table(text, text[], bigint[]) IS 'part of click_report: clicks by labels, which are HTML';

CREATE FUNCTION report_breakdown(caption text, dimension text, without text, since timestamptz, until timestamptz, workspace text)
    RETURNS text
    LANGUAGE sql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT shortener.report_table(caption,
        array_agg('<bdi>' || shortener.escape_html(coalesce(b.value, without)) || '</bdi>' ORDER BY b.clicks DESC, b.value),
        array_agg(b.clicks ORDER BY b.clicks DESC, b.value))
    FROM shortener.click_breakdown(NULL, dimension, since, until, 10, workspace) b
$$;
COMMENT ON FUNCTION report_breakdown(text, text, text, timestamptz, timestamptz, text) IS
    'part of click_report: the ten most frequent values';

CREATE FUNCTION click_report(workspace text = NULL, since timestamptz = NULL, until timestamptz = NULL) RETURNS text
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    last constant timestamptz := coalesce(until, now());
    start constant timestamptz := coalesce(since, last - interval '30 days');
    bucket constant text := CASE WHEN start > last - interval '100 days' THEN 'day' ELSE 'month' END;
    first constant timestamptz := date_trunc(bucket, start, 'UTC'); -- as click_series does: all of the page must agree
    heading constant text := (SELECT 'Clicks of ' || w.name FROM shortener.workspace w
                              WHERE w.id = shortener.workspace_id(click_report.workspace));
    clicks numeric;
    visitors numeric;
    bots numeric;
    links text[];
    link_clicks bigint[];
    chart constant text := shortener.chart_of_clicks(heading, NULL, bucket, start, last, workspace);
BEGIN
    SELECT coalesce(sum(s.clicks), 0), coalesce(sum(s.unique_visitors), 0), coalesce(sum(s.bots), 0) INTO clicks, visitors, bots
    FROM shortener.click_series(NULL, bucket, first, last, workspace) s;
    SELECT array_agg(concat('<bdi>', shortener.escape_html(t.short_code), '</bdi> <span><bdi>',
                            shortener.escape_html(left(coalesce(t.title, t.original_url), 120)), '</bdi></span>')
                     ORDER BY t.clicks DESC, t.short_code),
           array_agg(t.clicks ORDER BY t.clicks DESC, t.short_code)
    INTO links, link_clicks
    FROM shortener.top_links(workspace, first, 10, last) t;

    RETURN concat('<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"/>',
        '<meta name="viewport" content="width=device-width"/>',
        '<meta name="color-scheme" content="light dark"/><meta name="referrer" content="no-referrer"/>',
        '<meta http-equiv="Content-Security-Policy" content="default-src ''none''; style-src ''unsafe-inline''"/><title>',
        shortener.escape_html(heading), '</title><style>', shortener.report_style(), '</style></head><body><h1><bdi>',
        shortener.escape_html(heading), '</bdi></h1><p>', to_char(first AT TIME ZONE 'UTC', 'FMDD Mon YYYY'), ' to ',
        to_char(last AT TIME ZONE 'UTC', 'FMDD Mon YYYY, HH24:MI'), ' UTC</p><dl>',
        (SELECT string_agg(format('<div><dt>%s</dt><dd>%s</dd></div>', f.name, to_char(f.value, 'FM999,999,999,999,990')), ''
                           ORDER BY f.number)
         FROM (VALUES (1, 'clicks', clicks), (2, 'of these by bots', bots),
                      (3, 'visitors, by ' || bucket, visitors)) AS f (number, name, value)),
        '</dl>', chart, '<main>',
        shortener.report_table('Links', links, link_clicks),
        shortener.report_breakdown('Referrers', 'referrer', 'none', first, last, workspace),
        shortener.report_breakdown('Countries', 'country', 'unknown', first, last, workspace),
        shortener.report_breakdown('Campaigns', 'utm_campaign', 'none', first, last, workspace),
        shortener.report_breakdown('Devices', 'device', 'unknown', first, last, workspace),
        shortener.report_breakdown('Browsers', 'browser', 'unknown', first, last, workspace),
        shortener.report_breakdown('Operating systems', 'os', 'unknown', first, last, workspace),
        '</main></body></html>');
END $$;
COMMENT ON FUNCTION click_report(text, timestamptz, timestamptz) IS
    'one HTML page of the clicks of a workspace, without scripts: a chart, its top links, and where the clicks came from';
