BEGIN;
CREATE EXTENSION shortener CASCADE;
SET LOCAL search_path = shortener, public;
SELECT plan(37);

-- Base62
SELECT is(base62_encode(0), '0', 'zero');
SELECT is(base62_encode(61), 'Z', 'the last digit');
SELECT is(base62_encode(62), '10', 'the first number of two digits');
SELECT is(base62_encode(123456789012345678), '97qS0b7N2m', 'the example of the design');
SELECT is(base62_decode('97qS0b7N2m'), 123456789012345678, 'and back');
SELECT is(base62_encode(9223372036854775807), 'aZl8N0y58M7', 'the largest');
SELECT is(base62_decode('aZl8N0y58M7'), 9223372036854775807, 'and back');
SELECT is(base62_encode(NULL), NULL, 'strict');
SELECT is(base62_decode(NULL), NULL, 'strict');

SELECT is_empty($$
    SELECT value FROM (SELECT power(62::numeric, k) + d AS value FROM generate_series(0, 10) k, generate_series(-1, 1) d) v
    WHERE base62_decode(base62_encode(value::bigint)) <> value $$,
    'decode inverts encode at 62^k and its neighbours');
SELECT is_empty($$
    SELECT k FROM generate_series(1, 10) k
    WHERE length(base62_encode((power(62::numeric, k) - 1)::bigint)) <> k
       OR length(base62_encode(power(62::numeric, k)::bigint)) <> k + 1 $$,
    'lengths grow exactly at 62^k');
SELECT is((SELECT count(*) FROM (SELECT (random() * 9223372036854775295)::bigint AS value FROM generate_series(1, 1000000)) v
    WHERE base62_decode(base62_encode(value)) = value), 1000000::bigint, 'decode inverts encode on a million random numbers');
SELECT is_empty($$ SELECT i FROM generate_series(0, 10000) i
    WHERE lower(base62_encode(i)) = base62_encode(i) AND base62_decode(base62_encode(i)) <> i $$, 'and on the small ones');

SELECT throws_ok($$ SELECT base62_decode('') $$, '22P02', 'base62 code is empty', 'empty');
SELECT throws_ok($$ SELECT base62_decode('00') $$, '22P02', 'base62 code "00" has a leading zero', 'leading zero');
SELECT throws_ok($$ SELECT base62_decode('0a') $$, '22P02', 'base62 code "0a" has a leading zero', 'leading zero');
SELECT throws_ok($$ SELECT base62_decode('a-b') $$, '22P02', 'base62 code "a-b" has a character outside 0-9a-zA-Z', 'foreign character');
SELECT throws_ok($$ SELECT base62_decode(' a') $$, '22P02', 'base62 code " a" has a character outside 0-9a-zA-Z', 'space');
SELECT throws_ok($$ SELECT base62_decode('é') $$, '22P02', 'base62 code "é" has a character outside 0-9a-zA-Z', 'beyond ASCII');
SELECT throws_ok($$ SELECT base62_decode('aZl8N0y58M8') $$, '22003', 'base62 code "aZl8N0y58M8" is out of range for type bigint', 'overflow by one');
SELECT throws_ok($$ SELECT base62_decode('ZZZZZZZZZZZ') $$, '22003', NULL, 'overflow of eleven digits');
SELECT throws_ok($$ SELECT base62_decode(repeat('Z', 12)) $$, '22003', NULL, 'overflow by length');
SELECT throws_ok($$ SELECT base62_decode(repeat('é', 1000)) $$, '22P02',
    'base62 code "' || repeat('é', 32) || '..." has a character outside 0-9a-zA-Z', 'a long input is cut at a character');
SELECT throws_ok($$ SELECT base62_encode(-1) $$, '22003', 'cannot encode the negative number -1 in base62', 'negative');
SELECT throws_ok($$ SELECT base62_encode(-9223372036854775808) $$, '22003', NULL, 'the most negative');

-- Snowflake ids
SELECT is((SELECT count(DISTINCT snowflake_id()) FROM generate_series(1, 100000)), 100000::bigint, 'ids are unique');
SELECT is_empty($$ SELECT 1 FROM (SELECT id, lag(id) OVER (ORDER BY i) AS before FROM
    (SELECT i, snowflake_id() AS id FROM generate_series(1, 10000) i) s) t WHERE id <= before $$, 'ids increase');
SELECT ok(abs(extract(epoch FROM snowflake_time(snowflake_id()) - clock_timestamp())) < 60, 'an id tells its time');
SELECT is(snowflake_time(0), '2024-01-01 00:00:00+00'::timestamptz, 'the epoch');
SELECT is(snowflake_time(9223372036854775807), '2093-09-06 15:47:35.551+00'::timestamptz, 'the last instant');
SET LOCAL shortener.node_id = 0;
SELECT is(snowflake_node(snowflake_id()), 0, 'node 0');
SET LOCAL shortener.node_id = 1023;
SELECT is(snowflake_node(snowflake_id()), 1023, 'node 1023');
SELECT throws_ok('SET LOCAL shortener.node_id = 1024', '22023', NULL, 'node 1024 is refused');
SELECT throws_ok('SET LOCAL shortener.node_id = -1', '22023', NULL, 'node -1 is refused');
SELECT throws_ok('SET LOCAL shortener.nodeid = 1', NULL, NULL, 'an unknown setting is refused');

-- What Postgres believes of the functions
SELECT is((SELECT string_agg(concat_ws(' ', proname, provolatile, proisstrict, proparallel), ', ' ORDER BY proname COLLATE "C")
    FROM pg_proc WHERE pronamespace = 'shortener'::regnamespace AND (proname LIKE 'base62%' OR proname LIKE 'snowflake%')),
    'base62_decode i t s, base62_encode i t s, snowflake_id v t s, snowflake_node i t s, snowflake_time i t s',
    'volatility, strictness and parallel safety');
SELECT is_empty($$ SELECT p.oid::regprocedure FROM pg_proc p
    JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
    JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'shortener'
    WHERE obj_description(p.oid, 'pg_proc') IS NULL $$,
    'every function of the extension has a comment');

SELECT * FROM finish();
ROLLBACK;
