BEGIN;
CREATE EXTENSION shortener CASCADE;
SET LOCAL search_path = shortener, public;
SELECT plan(29);

-- User agents
SELECT is(parse_user_agent('Mozilla/5.0 (iPhone; CPU iPhone OS 17_2 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.2 Mobile/15E148 Safari/604.1')::text,
    ROW ('mobile', 'Mobile Safari', '17.2', 'iOS', '17.2')::text, 'a telephone');
SELECT is(parse_user_agent('Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:120.0) Gecko/20100101 Firefox/120.0')::text,
    ROW ('desktop', 'Firefox', '120.0', 'Windows', '10')::text, 'a computer');
SELECT is(parse_user_agent('Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)')::text,
    ROW ('bot', 'Googlebot', '2.1', 'unknown', NULL::text)::text, 'a bot');
SELECT is(parse_user_agent('nobody knows')::text, ROW ('unknown', 'unknown', NULL::text, 'unknown', NULL::text)::text, 'what is not recognized');
SELECT is(parse_user_agent('')::text, ROW ('unknown', 'unknown', NULL::text, 'unknown', NULL::text)::text, 'an empty one');
SELECT is((SELECT device_type FROM parse_user_agent(NULL)), NULL, 'parse_user_agent is strict');
SELECT is((parse_user_agent(repeat('x', 252) || 'curl')).device_type, 'bot', '256 characters count');
SELECT is((parse_user_agent(repeat('x', 253) || 'curl')).device_type, 'unknown', 'what is beyond them does not');
SELECT is((parse_user_agent(repeat(U&'\00e9', 252) || 'curl')).device_type, 'bot', 'they are characters, not bytes');
SELECT lives_ok($$ SELECT parse_user_agent(repeat(c, 1000000)) FROM unnest('{a,;,(,"; ",Mozilla/5.0 (,Android,x/1.}'::text[]) c $$,
    'megabytes are cut');

-- A file that cannot be read
SET LOCAL client_min_messages = error;
SET LOCAL shortener.user_agent_regexes = '/nonexistent';
SELECT is(parse_user_agent('curl/7.88.1')::text, ROW ('unknown', 'unknown', NULL::text, 'unknown', NULL::text)::text, 'without the file');
SET LOCAL shortener.user_agent_regexes = '/etc/passwd';
SELECT is((parse_user_agent('curl/7.88.1')).browser, 'unknown', 'with a file that is something else');
SET LOCAL shortener.user_agent_regexes = DEFAULT;
SELECT is((parse_user_agent('curl/7.88.1')).browser, 'curl', 'with the right one again');

-- Addresses
SELECT is(anonymize_ip('203.0.113.77'), '203.0.113.0', 'IPv4');
SELECT is(anonymize_ip('203.0.113.77/24'), '203.0.113.0', 'a netmask says nothing of a visitor');
SELECT is(anonymize_ip('2001:db8:1:2:3:4:5:6'), '2001:db8:1::', 'IPv6');
SELECT is(anonymize_ip('::ffff:203.0.113.77'), '203.0.113.0', 'IPv4 mapped into IPv6');
SELECT is(anonymize_ip('2002:cb00:714d::1'), '2002:cb00:7100::', '6to4');
SELECT is(anonymize_ip(NULL), NULL, 'anonymize_ip is strict');
SELECT is_empty($$ SELECT ip FROM unnest('{1.2.3.4,::1,::ffff:1.2.3.4,2002:102:304::,ff02::1,255.255.255.255}'::inet[]) ip
    WHERE anonymize_ip(anonymize_ip(ip)) <> anonymize_ip(ip) $$, 'anonymize_ip is idempotent');
CREATE TEMPORARY TABLE kept (ip inet CHECK (anonymize_ip(ip) = ip));
SELECT throws_ok($$ INSERT INTO kept VALUES ('203.0.113.77') $$, '23514', NULL, 'and serves in a constraint');

-- Visitors
SELECT is(visitor_hash('\x000102030405060708090a0b0c0d0e0f', '203.0.113.77', 'agent'),
    visitor_hash('\x000102030405060708090a0b0c0d0e0f', '::ffff:203.0.113.77', 'agent'), 'the same visitor');
SELECT is(visitor_hash(NULL, '203.0.113.77', 'agent'), NULL, 'no salt, no visitor');
SELECT isnt(visitor_hash('\x000102030405060708090a0b0c0d0e0f', NULL, NULL), NULL, 'a visitor of whom nothing is known');
SELECT throws_ok($$ SELECT visitor_hash('\x00', '203.0.113.77', 'agent') $$, '22023', 'salt must have 16 bytes', 'a short salt');

-- Settings
SELECT is(geo_lookup('203.0.113.77')::text, ROW (NULL::text, NULL::text)::text, 'without a GeoIP database');
CREATE ROLE nobody_special;
SET LOCAL ROLE nobody_special;
SELECT throws_ok($$ SET shortener.geoip_database = '/etc/passwd' $$, '42501', NULL, 'which only superusers choose');
SELECT throws_ok($$ SET shortener.user_agent_regexes = '/etc/passwd' $$, '42501', NULL, 'as they do the regular expressions');
RESET ROLE;

SELECT is((SELECT string_agg(concat_ws(' ', proname, provolatile, proisstrict, proparallel), ', ' ORDER BY proname COLLATE "C")
    FROM pg_proc WHERE pronamespace = 'shortener'::regnamespace
    AND proname IN ('parse_user_agent', 'anonymize_ip', 'geo_lookup', 'visitor_hash')),
    'anonymize_ip i t s, geo_lookup s t s, parse_user_agent s t r, visitor_hash i f s', 'volatility, strictness and parallel safety');

SELECT * FROM finish();
ROLLBACK;
