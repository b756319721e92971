BEGIN;
CREATE EXTENSION shortener CASCADE;
CALL shortener.install();
SET LOCAL search_path = shortener, public;
SELECT plan(53);

-- Text in HTML
SELECT is(escape_html('<a href="x" title=''y''>&amp;</a>'), '&lt;a href=&quot;x&quot; title=&#39;y&#39;&gt;&amp;amp;&lt;/a&gt;', 'what means something is escaped');
SELECT is(escape_html(E'a\x01\x0b\x1f\x7fb\tc\nd'), E'a    b\tc\nd', 'control characters go');
SELECT ok(xml_is_well_formed_document('<a b="' || escape_html(text) || '">' || escape_html(text) || '</a>'), 'XML takes every character of ASCII')
FROM (SELECT string_agg(chr(i), '') AS text FROM generate_series(1, 127) i) every;

-- Axes
SELECT is(chart_step(largest), step, format('axis to %s: lines at each %s', largest, step)) FROM (VALUES
    (1::numeric, 1::numeric), (5, 1), (6, 2), (10, 2), (11, 5), (25, 5), (26, 10), (1000, 200), (1001, 500), (9e18, 2e18)) AS v (largest, step);
SELECT is((SELECT string_agg(chart_number(value, largest), ' ' ORDER BY largest, value) FROM (VALUES
    (0::numeric, 5::numeric), (5, 5), (1000, 9999), (0, 15000), (5000, 15000), (250000, 500000), (500000, 1e6), (3e9, 5e9)) AS v (value, largest)),
    '0 5 1,000 0 5k 250k 0.5M 3G', 'numbers of an axis are short');

-- Charts of given numbers
CREATE FUNCTION marks(picture text, path text) RETURNS text[] LANGUAGE sql
    RETURN xpath(path, picture::xml, '{{s,http://www.w3.org/2000/svg}}')::text[];
CREATE TEMPORARY TABLE drawn AS
    SELECT chart_svg('<&"title">', 'day', '{2026-01-30,2026-01-31,2026-02-01}', '{10,0,5}', '{4,0,5}') AS svg;
SELECT is(marks(svg, '/s:svg/s:title/text()'), '{"&lt;&amp;\"title\"&gt;"}', 'the title is text') FROM drawn;
SELECT is(marks(svg, '//s:g/s:title/text()'), '{"2026-01-30: 10 clicks, 4 visitors","2026-01-31: 0 clicks, 0 visitors","2026-02-01: 5 clicks, 5 visitors"}',
    'each column says what it stands for') FROM drawn;
SELECT is(marks(svg, '//s:g/s:rect[@class="clicks"]/@height'), '{210.0,0.0,105.0}', 'columns are as high as the clicks') FROM drawn;
SELECT is(marks(svg, '//s:polyline[@class="visitors"]/@points'), '{"190.00,178.0 418.00,262.0 646.00,157.0"}', 'a line goes through the visitors') FROM drawn;
SELECT is(marks(svg, '//s:text[@text-anchor="middle"]/text()'), '{"30 Jan","31 Jan","1 Feb"}', 'days at the axis') FROM drawn;
SELECT is(marks(svg, '//s:text[@text-anchor="end"]/text()'), '{0,2,4,6,8,10}', 'numbers at the axis') FROM drawn;
SELECT is(marks(chart_svg('', 'month', '{2026-12-01,2027-01-01}', '{1,2}', '{1,2}'), '//s:text[@text-anchor="middle"]/text()'),
    '{"Dec 2026","Jan 2027"}', 'months at the axis');
SELECT is(marks(svg, '//s:text[@text-anchor="middle"]/text()'), '{"1 Jan","2 Jan","3 Jan","4 Jan","5 Jan"}', 'days at the axis of many hours')
FROM (SELECT chart_svg('', 'hour', array_agg(h ORDER BY h), array_agg(1 ORDER BY h), array_agg(1 ORDER BY h)) AS svg
      FROM generate_series('2026-01-01'::timestamp, '2026-01-05', '1 hour') h) hours;
SELECT is(marks(svg, '//s:text[@text-anchor="middle"]/text()'), labels, 'hours at the axis of ' || hours)
FROM (VALUES (2, '{17:00,18:00,19:00}'::text[]), (24, '{18:00,"2 Jan",06:00,12:00}'), (48, '{18:00,"2 Jan",06:00,12:00,18:00,"3 Jan",06:00,12:00}'))
    AS v (hours, labels)
CROSS JOIN LATERAL (SELECT chart_svg('', 'hour', array_agg(h ORDER BY h), array_agg(1 ORDER BY h), array_agg(1 ORDER BY h)) AS svg
                    FROM generate_series('2026-01-01 17:00'::timestamp, '2026-01-01 17:00'::timestamp + hours * interval '1 hour', '1 hour') h) c;
SELECT is(marks(svg, '//s:text[@text-anchor="middle"]/text()'), labels, 'days at the axis of ' || days)
FROM (VALUES (101, '{"1 Dec","1 Jan","1 Feb"}'::text[]), (366, '{"Dec 2025","Feb 2026","Apr 2026","Jun 2026","Aug 2026","Oct 2026"}')) AS v (days, labels)
CROSS JOIN LATERAL (SELECT chart_svg('', 'day', array_agg(d ORDER BY d), array_agg(1 ORDER BY d), array_agg(1 ORDER BY d)) AS svg
                    FROM generate_series('2025-11-19'::timestamp, '2025-11-19'::timestamp + (days - 1) * interval '1 day', '1 day') d) c;
SELECT is(cardinality(marks(svg, '//s:text[@class="odd"]')), odd, format('of %s labels, %s are left out on small screens', months, odd))
FROM (VALUES (2, 0), (4, 0), (5, 2), (8, 4), (9, 2)) AS v (months, odd)
CROSS JOIN LATERAL (SELECT chart_svg('', 'month', array_agg(m ORDER BY m), array_agg(1 ORDER BY m), array_agg(1 ORDER BY m)) AS svg
                    FROM generate_series('2026-01-01'::timestamp, '2026-01-01'::timestamp + (months - 1) * interval '1 month', '1 month') m) c;
SELECT cmp_ok(cardinality(marks(svg, '//s:text[@text-anchor="middle"]')), '<=', 8, 'at most eight labels')
FROM (SELECT chart_svg('', 'day', array_agg(d ORDER BY d), array_agg(1 ORDER BY d), array_agg(1 ORDER BY d)) AS svg
      FROM generate_series('2024-01-01'::timestamp, '2026-01-05', '1 day') d) days;
SELECT ok(xml_is_well_formed_document(chart_svg('', 'day', '{}', '{}', '{}')), 'a chart of nothing');
SELECT ok(xml_is_well_formed_document(chart_svg('', 'day', NULL, NULL, NULL)), 'a chart of NULL');

-- Charts of clicks
CREATE TEMPORARY TABLE made AS
    SELECT * FROM create_link('https://example.com/a?utm_campaign=</style><script>', alias => 'code-1', title => '</title><script>alert("1")</script>');
SELECT record_clicks('00000000-0000-0000-0000-000000000001', array_agg(l.id), array_agg(now() - i * interval '1 day'), array_agg(format('10.0.0.%s', i)::inet),
    array_agg('"><script>alert(2)</script>'::text), array_agg('https://x"><script>alert(3)</script>/'::text))
FROM link l, generate_series(0, 2) i WHERE l.short_code = 'code-1';
SELECT record_clicks('00000000-0000-0000-0000-000000000002', array_agg(l.id), array_agg(now()), array_agg(format('10.0.1.%s', i)::inet))
FROM link l, generate_series(1, 3) i WHERE l.short_code = 'code-1';
SELECT roll_up_clicks(100);

SELECT is(marks(click_chart('code-1'), '/s:svg/s:title/text()'), '{"Clicks on code-1"}', 'click_chart');
SELECT is((marks(click_chart('code-1'), '//s:g/s:title/text()'))[29:],
    ARRAY(SELECT format('%s: %s clicks, %s visitors', d, n, n) FROM (SELECT ((now() AT TIME ZONE 'UTC')::date - i)::text, CASE i WHEN 0 THEN 4 ELSE 1 END
          FROM generate_series(2, 0, -1) i) AS v (d, n)), 'has the last thirty days');
SELECT is(cardinality(marks(click_chart('code-1'), '//s:g/s:title')), 31, 'those without clicks too');
SELECT is(cardinality(marks(click_chart('code-1', 'hour'), '//s:g/s:title')), 49, 'two days by hour');
SELECT is(cardinality(marks(click_chart('code-1', 'month'), '//s:g/s:title')), 13, 'a year by month');
SELECT is(cardinality(marks(click_chart('code-1', 'day', '2026-01-01 00:00+00', '2026-01-03 00:00+00'), '//s:g/s:title')), 2, 'until is not included');
SELECT is(click_chart('nobody'), NULL, 'no such link');
SELECT throws_ok($$ SELECT click_chart('code-1', 'week') $$, '22023', 'bucket must be hour, day or month', 'another bucket');
SELECT throws_ok($$ SELECT click_chart('code-1', 'day', now(), now()) $$, '22023', 'since must be earlier than until', 'no time');
SELECT throws_ok($$ SELECT click_chart('code-1', 'hour', '-infinity') $$, '54000', 'a chart can have at most 1000 columns', 'too much time');
SELECT throws_ok($$ SELECT click_chart('code-1', 'month', now(), 'infinity') $$, '54000', 'a chart can have at most 1000 columns', 'no end');

-- Reports
CREATE TEMPORARY TABLE report AS SELECT click_report() AS html;
SELECT ok(xml_is_well_formed_document(html), 'whatever was sent, the page is well-formed') FROM report;
SELECT ok(html !~* '<(script|img|iframe|link)|<[^>]*( on[a-z]+=|src=|href=)', 'it has neither scripts nor references') FROM report;
SELECT is((xpath('//*[local-name() = "section"]/*[local-name() = "h2"]/text()', html::xml))::text[],
    '{Links,Referrers,Countries,Campaigns,Devices,Browsers,"Operating systems"}', 'its sections') FROM report;
SELECT ok(html LIKE '%&lt;/title&gt;&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;%', 'a title is shown as it is') FROM report;
SELECT ok(html LIKE '%<h2>Links</h2><table></table><p>None.</p>%' AND xml_is_well_formed_document(html), 'a report of nothing')
FROM click_report(since => '2020-01-01', until => '2020-02-01') html;
SELECT record_clicks('00000000-0000-0000-0000-000000000003', array_agg(l.id), array_agg(date_trunc('month', now(), 'UTC') - interval '5 months' + interval '1 day'))
FROM link l WHERE l.short_code = 'code-1';
SELECT roll_up_clicks(100);
SELECT is((xpath('//*[local-name() = "dd"]/text()', html))[1]::text, (xpath('//*[local-name() = "section"]//*[local-name() = "td"]/text()', html))[1]::text,
    'a report by month is of whole months in all its parts')
FROM CAST(click_report(since => date_trunc('month', now(), 'UTC') - interval '5 months' + interval '10 days') AS xml) html;
SELECT throws_ok($$ SELECT click_report(since => '-infinity') $$, '54000', NULL, 'too much time for a report');

SELECT * FROM finish();
ROLLBACK;
