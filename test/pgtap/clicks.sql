-- rollup_clicks and maintain_clicks commit, so this file is no transaction: it drops what it makes at the end.
\set ON_ERROR_STOP 1
SET client_min_messages = warning;
CREATE EXTENSION shortener CASCADE;
CALL shortener.install();
SELECT no_plan();

SELECT shortener.create_workspace('other', 'Other');
SELECT shortener.create_link('https://example.com/?utm_source=News%20letter&utm_medium=e+mail&utm_campaign=%3Cb%3E', 'a'),
    shortener.create_link('https://example.com/b', 'b'), shortener.create_link('https://example.com/c', 'c', workspace => 'other');
CREATE FUNCTION link(code text) RETURNS bigint LANGUAGE sql AS 'SELECT id FROM shortener.link WHERE short_code = code';
-- Clicks on a link at a time, from as many addresses, by one user agent.
CREATE FUNCTION click(code text, at timestamptz, visitors int = 1, user_agent text = NULL, referer text = NULL, batch uuid = gen_random_uuid())
    RETURNS bigint LANGUAGE sql AS $$
    SELECT shortener.record_clicks(batch, array_agg(l.id), array_agg(at), array_agg('192.0.2.1'::inet + 256 * i), array_agg(user_agent),
        array_agg(referer)) FROM shortener.link l, generate_series(1, visitors) i WHERE l.short_code = code $$;
\set chrome '''Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36'''
\set phone '''Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.0 Mobile/15E148 Safari/604.1'''
\set bot '''Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)'''

-- What is stored
SELECT is(shortener.record_clicks('00000000-0000-0000-0000-000000000001', ARRAY[link('a'), link('b'), link('c'), link('a'), link('a'), 999999, NULL],
    array_fill(now(), '{7}'), '{192.0.2.77,2001:db8:1:2:3:4:5:6,::ffff:198.51.100.9,198.51.100.7/24,NULL,192.0.2.1,192.0.2.1}',
    ARRAY[:chrome, :phone, :bot, repeat('é', 300), NULL, 'x', 'x'],
    '{https://user@News.Example:8080/secret?q=1#f,android-app://com.example.mail/,javascript:alert(1),NULL,"",http://x/,http://x/}'),
    5::bigint, 'record_clicks returns the clicks that it has stored');
SELECT results_eq('SELECT clicks, unknown_links, refused FROM shortener.click_batch', 'VALUES (5, 2, 0)', 'and counts those on unknown links');
SELECT bag_eq('SELECT workspace_id, link_id, ip, referrer FROM shortener.click_details', $$ VALUES
    (1, link('a'), '192.0.2.0'::inet, 'news.example' COLLATE "C"), (1, link('b'), '2001:db8:1::', 'com.example.mail'), (2, link('c'), '198.51.100.0', NULL),
    (1, link('a'), '198.51.100.0', NULL), (1, link('a'), NULL, NULL) $$, 'addresses are anonymous, referrers are hosts');
SELECT bag_eq('SELECT device, browser, os, length(user_agent) FROM shortener.click_details', $$ VALUES
    ('desktop', 'Chrome', 'Windows', 111), ('mobile', 'Mobile Safari', 'iOS', 135), ('bot', 'Googlebot', 'unknown', 72),
    ('unknown', 'unknown', 'unknown', 256), ('unknown', 'unknown', 'unknown', NULL) $$, 'user agents are recognized, and cut');
SELECT is((SELECT count(*) FROM shortener.user_agent WHERE workspace_id = 2), 1::bigint, 'each workspace has its own dictionary');
SELECT throws_ok(format('INSERT INTO shortener.click_event VALUES (now(), 1, 1, 0, 0, 0, %L)', ip), '23514', NULL, ip || ' cannot be stored by any means')
    FROM unnest('{192.0.2.1,192.0.2.0/24,2001:db8::1,2001:db8:0:1::,::ffff:192.0.2.0}'::text[]) ip;

-- Arguments
SELECT throws_ok($$ SELECT shortener.record_clicks(NULL, '{1}', '{now}') $$, '22004', NULL, 'a batch has an id');
SELECT throws_ok($$ SELECT shortener.record_clicks(gen_random_uuid(), '{1,2}', '{now}') $$, '2202E', 'clicked_at must have as many elements as link_ids', 'too few times');
SELECT throws_ok($$ SELECT shortener.record_clicks(gen_random_uuid(), '{1}', '{now}', user_agents => '{}') $$, '2202E', NULL, 'too few user agents');
SELECT throws_ok($$ SELECT shortener.record_clicks(gen_random_uuid(), '{{1}}', '{{now}}') $$, '2202E', NULL, 'two dimensions');
SELECT is(shortener.record_clicks(gen_random_uuid(), '{}', '{}'), 0::bigint, 'no clicks');
SELECT is(shortener.record_clicks(gen_random_uuid(), format('[5:5]={%s}', link('b'))::bigint[], '{now}', '[0:0]={192.0.2.1}'), 1::bigint, 'any lower bound');
SELECT is(shortener.record_clicks(gen_random_uuid(), ARRAY[link('a'), link('c')], array_fill(now(), '{2}'), workspace_ids => '{2,2}'),
    1::bigint, 'a link is looked for in the workspace that is said');

-- Whoever may insert links can give one the id of another tenant's.
SELECT shortener.create_link('https://example.com/d', 'd');
INSERT INTO shortener.link (id, workspace_id, short_code, original_url, redirect_status) VALUES (link('d'), 2, 'forged', 'https://forged.example/', 302);
SELECT is(shortener.record_clicks(gen_random_uuid(), array_fill(link('d'), '{4}'), array_fill(now(), '{4}'), workspace_ids => '{2,1,1,1}'), 4::bigint,
    'clicks on two links of one id');
SELECT bag_eq($$ SELECT workspace_id, count(*) FROM shortener.click_event WHERE link_id = link('d') GROUP BY 1 $$, 'VALUES (2, 1::bigint), (1, 3)', '... go each to its own');
SELECT is(shortener.record_clicks(gen_random_uuid(), ARRAY[link('d')], '{now}'), 0::bigint, '... and to neither when no workspace is said');
SELECT shortener.purge_clicks('d'), shortener.purge_clicks('forged', 'other');
DELETE FROM shortener.link WHERE short_code IN ('d', 'forged');

-- Twice
SELECT is(click('b', now(), 2, batch => '00000000-0000-0000-0000-000000000002'), 2::bigint, 'a batch');
SELECT is(click('b', now(), 2, batch => '00000000-0000-0000-0000-000000000002'), 0::bigint, 'the same batch again records nothing');

-- Times
SELECT is(click('b', now() + '50 seconds'), 1::bigint, 'a clock may be a little ahead');
SELECT is(click('b', now() + '70 seconds'), 0::bigint, 'but not more than a minute');
SELECT is(click('b', 'infinity'), 0::bigint, 'nor for ever');
SELECT is(click('b', '-infinity'), 0::bigint, 'nor since ever');
SELECT is(click('b', '2020-02-02'), 0::bigint, 'a click of a month that is not kept is refused');
SELECT is((SELECT sum(refused) FROM shortener.click_batch), 4::bigint, 'refused ones are counted');
SELECT is(click('b', now() - '12 months'::interval), 1::bigint, 'one that comes late is not');

-- Counters
SELECT is_empty('SELECT * FROM shortener.click_series(NULL)', 'nothing is counted before rollup_clicks');
SELECT is_empty('SELECT * FROM shortener.verify_rollups()', 'and nothing is missed: all is pending');
CALL shortener.rollup_clicks(batch_size => 1);
SELECT is((SELECT count(*) FROM shortener.click_pending), 0::bigint, 'nothing is pending after rollup_clicks');
SELECT is_empty('SELECT * FROM shortener.verify_rollups()', 'counters are equal to the raw clicks');
BEGIN;
CALL shortener.rollup_clicks();
ROLLBACK;
SELECT is_empty('SELECT * FROM shortener.verify_rollups()', 'and stay so');
UPDATE shortener.click_day SET clicks = clicks + 1 WHERE link_id = link('a');
SELECT results_eq('SELECT level, link_id, dimension, rolled_up_clicks - raw_clicks FROM shortener.verify_rollups()',
    $$ VALUES ('day', link('a'), NULL, 1::bigint) $$, 'a wrong counter is found');
UPDATE shortener.click_day SET clicks = clicks - 1 WHERE link_id = link('a');

SELECT results_eq($$ SELECT sum(clicks), sum(unique_visitors), sum(bots) FROM shortener.click_series('a', 'hour') $$, 'VALUES (3::numeric, 3::numeric, 0::numeric)', 'a series by hour');
SELECT results_eq($$ SELECT sum(clicks), sum(unique_visitors), sum(bots) FROM shortener.click_series('c', 'day', workspace => 'other') $$,
    'VALUES (2::numeric, 1::numeric, 1::numeric)', 'a bot is a click, and no visitor');
SELECT is_empty($$ SELECT * FROM shortener.click_series('c') $$, 'a code belongs to its workspace');
SELECT results_eq($$ SELECT count(*), sum(clicks) FROM shortener.click_series('b', 'month') $$, 'VALUES (2::bigint, 6::numeric)', 'a late click is in its own month');
SELECT throws_ok($$ SELECT * FROM shortener.click_series('a', 'week') $$, '22023', 'bucket must be hour, day or month', 'an unknown bucket');
SELECT throws_ok($$ SELECT * FROM shortener.click_breakdown('a', 'colour') $$, '22023', NULL, 'an unknown dimension');
SELECT results_eq($$ SELECT * FROM shortener.click_breakdown('a', 'referrer') $$, $$ VALUES (NULL, 2::bigint), ('news.example', 1) $$, 'a breakdown, with those of whom nothing is known');
SELECT results_eq($$ SELECT d, b.value FROM unnest('{utm_source,utm_medium,utm_campaign}'::text[]) WITH ORDINALITY d (d, i), shortener.click_breakdown('a', d) b ORDER BY i $$,
    $$ VALUES ('utm_source', 'News letter'), ('utm_medium', 'e mail'), ('utm_campaign', '<b>') $$, 'campaigns of the visited address');
SELECT is((SELECT sum(clicks) FROM shortener.click_breakdown(NULL, d)), (SELECT sum(clicks) FROM shortener.click_series(NULL))::numeric, d || ' adds up')
    FROM unnest('{referrer,country,city,device,browser,os,utm_source}'::text[]) d;
SELECT results_eq('SELECT short_code, clicks FROM shortener.top_links()', $$ VALUES ('b', 6::bigint), ('a', 3) $$, 'the links with the most clicks');
SELECT results_eq($$ SELECT short_code, clicks FROM shortener.top_links(since => now() - '1 day'::interval, max_rows => 1) $$, $$ VALUES ('b', 5::bigint) $$, 'of late');
SELECT results_eq('SELECT short_code COLLATE "default", clicks, bots, last_click IS NULL FROM shortener.link_totals ORDER BY 1',
    $$ VALUES ('a', 3::bigint, 0::bigint, false), ('b', 6, 0, false), ('c', 2, 1, false) $$, 'totals of links');
SELECT results_eq($$ SELECT clicks, visitors, desktop, mobile, tablet, countries FROM shortener.daily_click_stats WHERE date = (now() AT TIME ZONE 'UTC')::date AND workspace_id = 1 $$,
    $$ SELECT sum(clicks)::bigint, 7::bigint, 1::bigint, 1::bigint, 0::bigint, 0::bigint FROM shortener.click_day WHERE day = (now() AT TIME ZONE 'UTC')::date AND workspace_id = 1 $$, 'a day');

-- Distinct visitors
SELECT is(click('b', date_trunc('day', now(), 'UTC') - '3 days'::interval, n, 'many'), n::bigint, n || ' visitors')
    FROM unnest('{200}'::int[]) n;
SELECT is(click('b', date_trunc('day', now(), 'UTC') - '3 days'::interval, 200, 'many'), 200::bigint, 'who come again');
SELECT is(click('b', date_trunc('day', now(), 'UTC') - '4 days'::interval, 1000, 'many'), 1000::bigint, '1,000 visitors');
SELECT is(click('b', date_trunc('day', now(), 'UTC') - '5 days'::interval + i * interval '1 hour', 50000, 'many ' || i), 50000::bigint, '50,000 visitors of an hour')
    FROM generate_series(1, 2) i;
CALL shortener.rollup_clicks();
SELECT results_eq($$ SELECT clicks, unique_visitors FROM shortener.click_series('b', since => now() - '4 days'::interval, until => now() - '2 days'::interval)
    WHERE clicks = 400 $$, 'VALUES (400::bigint, 200::bigint)', 'few visitors are counted exactly');
SELECT cmp_ok(abs(unique_visitors - 1000), '<=', 20::bigint, '1,000 visitors within 2 %') FROM shortener.click_series('b') WHERE clicks = 1000;
SELECT cmp_ok(abs(unique_visitors - 100000), '<=', 2000::bigint, '100,000 visitors of two hours within 2 %') FROM shortener.click_series('b') WHERE clicks = 100000;
SELECT is((SELECT count(DISTINCT salt) FROM shortener.click_salt), (SELECT count(*) FROM shortener.click_salt), 'each day has its own salt');

-- Floods
SELECT lives_ok($$ SELECT shortener.record_clicks(gen_random_uuid(), array_agg(id), array_agg(now()), NULL, array_agg('made up ' || i), array_agg('https://h' || i || '.example/'))
    FROM shortener.link, generate_series(1, 5000) i WHERE short_code = 'a' $$, 'made-up user agents and referrers');
SELECT ok((SELECT count(*) FROM shortener.user_agent) <= 2010 AND (SELECT count(*) FROM shortener.referrer) <= 2010, 'do not fill the dictionaries');
SELECT is((SELECT sum(clicks) FROM shortener.click_batch WHERE clicks = 5000), 5000::bigint, 'but all are clicks');
CALL shortener.rollup_clicks();
SELECT is_empty('SELECT * FROM shortener.verify_rollups()', 'which are counted');

-- Unknown codes
SELECT shortener.add_domain('go.example', 'other');
SELECT is(shortener.record_unknown_codes('00000000-0000-0000-0000-000000000003', '{x,x,x,a b,NULL}', '{GO.example:80,go.example,elsewhere.example,go.example,NULL}'),
    5::bigint, 'visits of unknown codes');
SELECT is(shortener.record_unknown_codes('00000000-0000-0000-0000-000000000003', '{x}'), 0::bigint, 'once');
SELECT bag_eq('SELECT workspace_id, host, code, visits FROM shortener.unknown_code', $$ VALUES (2, 'go.example' COLLATE "C", 'x' COLLATE "C", 2::bigint), (1, '', 'x', 1) $$,
    'are counted by host');
SELECT shortener.record_unknown_codes(gen_random_uuid(), array_agg('y' || i)) FROM generate_series(1, 3000) i;
SELECT shortener.record_unknown_codes(gen_random_uuid(), array_agg('z' || i)) FROM generate_series(1, 3000) i;
SELECT shortener.record_unknown_codes(gen_random_uuid(), '{x}');
SELECT cmp_ok((SELECT count(*) FROM shortener.unknown_code WHERE workspace_id = 1), '<=', 1001::bigint, 'a flood of them is bounded');
SELECT results_eq($$ SELECT sum(visits), max(visits) FILTER (WHERE code = 'x'), max(visits) FILTER (WHERE code = '') FROM shortener.unknown_code WHERE workspace_id = 1 $$,
    'VALUES (6002::numeric, 2::bigint, 5001::bigint)', 'and loses no visit');

-- Upkeep
CALL shortener.maintain_clicks();
SELECT is(current_setting('search_path') || ' ' || current_setting('lock_timeout'), '"$user", public 0', 'a transaction block goes on with its own settings');
CREATE TABLE before AS
    SELECT s.*, l.short_code, b.bucket FROM (VALUES ('a', NULL), ('b', NULL), ('c', 'other')) l (short_code, workspace)
    CROSS JOIN (VALUES ('hour'), ('day'), ('month')) b (bucket) CROSS JOIN shortener.click_series(l.short_code, b.bucket, workspace => l.workspace) s;
SELECT is((SELECT count(*) FROM shortener.month_partitions('click_event')), 17::bigint, 'partitions of thirteen months past, this one and three to come');
DO $$ DECLARE p name; BEGIN
    FOR p IN SELECT partition FROM shortener.month_partitions('click_event') LOOP EXECUTE format('DROP TABLE shortener.%I', p); END LOOP;
END $$;
SELECT set_eq($$ SELECT s.*, l.short_code, b.bucket FROM (VALUES ('a', NULL), ('b', NULL), ('c', 'other')) l (short_code, workspace)
    CROSS JOIN (VALUES ('hour'), ('day'), ('month')) b (bucket) CROSS JOIN shortener.click_series(l.short_code, b.bucket, workspace => l.workspace) s $$,
    'TABLE before', 'dropping every raw partition changes no series');
SELECT is_empty('SELECT * FROM shortener.verify_rollups()', 'nor is there anything left to verify');
SELECT is(click('a', now()), 0::bigint, 'without a partition a click is refused');
CALL shortener.maintain_clicks();
SELECT is(click('a', now() - '14 days'::interval), 1::bigint, 'until maintain_clicks makes it');
UPDATE shortener.user_agent SET last_seen = now() - '2 years'::interval WHERE workspace_id = 1 AND user_agent LIKE 'made up%';
UPDATE shortener.click_batch SET received_at = now() - '8 days'::interval;
UPDATE shortener.click_salt SET created_at = now() - '2 days'::interval;
CREATE TABLE months AS SELECT sum(clicks) AS clicks, max(unique_visitors) AS visitors FROM shortener.click_series('b', 'month');
CREATE TABLE countries AS SELECT * FROM shortener.click_breakdown('b', 'browser');
CALL shortener.rollup_clicks();
CALL shortener.maintain_clicks(keep_days => '6 months', keep_hours => '6 months');
SELECT is((SELECT count(*) FROM shortener.user_agent WHERE user_agent LIKE 'made up%'), 0::bigint, 'what is in use no more leaves the dictionaries');
SELECT isnt((SELECT count(*) FROM shortener.user_agent), 0::bigint, 'and nothing else');
SELECT is((SELECT count(*) FROM shortener.click_batch), 0::bigint, 'batches are forgotten after a week');
SELECT results_eq('SELECT count(*) > 0, bool_and(day >= (now() AT TIME ZONE $$UTC$$)::date - 1) FROM shortener.click_salt', 'VALUES (true, true)', 'salts of past days are destroyed');
SELECT is((SELECT count(*) FROM shortener.click_series('b', 'day', until => now() - '6 months'::interval)), 0::bigint, 'old days are no more');
SELECT results_eq('SELECT sum(clicks), max(unique_visitors) FROM shortener.click_series($$b$$, $$month$$)', 'TABLE months', 'their months are');
SELECT results_eq('SELECT * FROM shortener.click_breakdown($$b$$, $$browser$$)', 'TABLE countries', 'and their breakdowns');
SELECT is(click('b', now() - '11 months'::interval), 1::bigint, 'a click that comes later still');
CALL shortener.rollup_clicks();
CALL shortener.maintain_clicks(keep_days => '6 months');
SELECT is((SELECT sum(clicks) FROM shortener.click_series('b', 'month')), (SELECT clicks + 1 FROM months), 'is added to its month');
SELECT is_empty('SELECT * FROM shortener.verify_rollups() WHERE raw_clicks > rolled_up_clicks', 'every raw click that is left is counted');
SELECT throws_ok('CALL shortener.maintain_clicks(keep_days => NULL)', '22004', NULL, 'a NULL');
SELECT throws_ok('CALL shortener.maintain_clicks(keep_events => $$1 hour$$)', '22023', NULL, 'too short');
SELECT throws_ok('CALL shortener.maintain_clicks(ahead => $$-1 day$$)', '22023', 'ahead must not be negative', 'partitions of the past');
SELECT throws_ok('CALL shortener.rollup_clicks(batch_size => 0)', '22023', 'batch_size must be from 1 to 10000', 'no batch');

-- Purge
SELECT is(click('b', now(), 3, :chrome), 3::bigint, 'pending clicks');
SELECT is(click('c', now(), 3, :chrome), 3::bigint, 'of two links');
CREATE TABLE total AS SELECT clicks FROM shortener.click_total WHERE link_id = link('b');
SELECT is((SELECT shortener.purge_clicks('b')), (SELECT clicks + 3 FROM total), 'purge_clicks returns how many there were, pending ones among them');
CALL shortener.rollup_clicks();
SELECT is((SELECT count(*) FROM shortener.click_event WHERE link_id = link('b')) + (SELECT count(*) FROM shortener.click_hour WHERE link_id = link('b'))
    + (SELECT count(*) FROM shortener.click_day_breakdown WHERE link_id = link('b')) + (SELECT count(*) FROM shortener.click_month WHERE link_id = link('b'))
    + (SELECT count(*) FROM shortener.click_total WHERE link_id = link('b')), 0::bigint, 'nothing of the link is left');
SELECT is(shortener.purge_clicks('nothing'), 0::bigint, 'a code that is none');
SELECT is_empty('SELECT * FROM shortener.verify_rollups() WHERE raw_clicks > rolled_up_clicks', 'other links keep theirs');

-- Rights
CREATE ROLE nobody_of_clicks;
GRANT USAGE ON SCHEMA shortener TO nobody_of_clicks;
SELECT ok(NOT has_function_privilege('nobody_of_clicks', p.oid, 'EXECUTE'), p.proname || ' is not for everybody')
    FROM pg_proc p WHERE p.pronamespace = 'shortener'::regnamespace
     AND p.proname = ANY ('{record_clicks,record_unknown_codes,rollup_clicks,maintain_clicks,purge_clicks,verify_rollups}');
SELECT shortener.grant_access('nobody_of_clicks', 'redirector');
SET ROLE nobody_of_clicks;
SELECT is(shortener.record_clicks(gen_random_uuid(), '{1}', '{now}', '{192.0.2.1}', '{x}', '{https://x/}'), 1::bigint, 'these rights suffice to record clicks');
SELECT throws_ok('SELECT * FROM shortener.click_salt', '42501', NULL, 'and not to read the salts');
SELECT throws_ok('SELECT * FROM shortener.click_event', '42501', NULL, 'nor clicks');
SELECT throws_ok('CALL shortener.rollup_clicks()', '42501', NULL, 'nor to count');
SELECT throws_ok($$ INSERT INTO shortener.click_pending VALUES (1, 1, now(), '-infinity', 'infinity', '{NULL}', '{infinity}', '{}', '{}', '{}', '{}') $$, '42501', NULL,
    'nor to make up what is counted');
SELECT throws_ok($$ INSERT INTO shortener.user_agent VALUES (1, 1, now(), now(), 'x y', 'bot', repeat('x', 65)) $$, '23514', NULL, 'nor names that counters could not hold');
RESET ROLE;

-- What takes room
SELECT is(shortener.record_clicks(gen_random_uuid(), array_fill(link('b'), '{30000}'), array_fill(now(), '{30000}'),
    referers => (SELECT array_agg('https://' || i || '.example/' || repeat('x', 2000)) FROM generate_series(1, 30000) i)), 30000::bigint, 'long referrers');
SELECT cmp_ok(substring(pg_read_file('/proc/self/status') FROM 'VmHWM:\s+(\d+) kB')::integer, '<', 400000, 'take no memory each');
SELECT is(shortener.record_unknown_codes(gen_random_uuid(), ARRAY[repeat('x', 300000000)]), 1::bigint, 'what is too long for a code is none');

SELECT * FROM finish();
SELECT shortener.revoke_access('nobody_of_clicks');
DROP ROLE nobody_of_clicks;
DROP EXTENSION shortener CASCADE;
DROP SCHEMA shortener CASCADE;
DROP TABLE before, months, countries, total;
DROP FUNCTION link, click;
