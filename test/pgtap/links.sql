BEGIN;
CREATE EXTENSION shortener CASCADE;
SELECT plan(182);

SELECT throws_ok(call, '55000', 'the tables of shortener are not installed', call || ' before install')
    FROM unnest('{"SELECT shortener.shorten(''http://a/'')","SELECT * FROM shortener.shorten_many(''{}'')",
        "SELECT shortener.create_link(''http://a/'')","SELECT shortener.update_link(''a'')","SELECT shortener.disable_link(''a'')",
        "SELECT shortener.enable_link(''a'')","SELECT shortener.delete_link(''a'')","SELECT shortener.get_link(''a'')",
        "SELECT shortener.list_links()","SELECT shortener.search_links(''a'')"}'::text[]) call;

CALL shortener.install();
SET LOCAL search_path = shortener, public;
CREATE FUNCTION pg_temp.status(code text) RETURNS integer LANGUAGE sql AS 'SELECT http_status FROM shortener.resolve(code)';
-- A link expires; nobody may say so through the functions.
CREATE FUNCTION pg_temp.expire(code text) RETURNS void LANGUAGE sql AS
    $$ UPDATE shortener.link SET expires_at = now() - '1 second'::interval WHERE short_code = code $$;

-- Create or get
SELECT matches(shorten('https://example.com/a'), '^[0-9a-zA-Z]{7}$', 'a code has seven characters');
SELECT is(shorten('https://example.com/a'), shorten('https://example.com/a'), 'the same URL has the same code');
SELECT is(shorten('HTTP://EXAMPLE.com:80/a/?utm_source=x'), shorten('https://example.com/a'), 'so has another way to write it');
SELECT isnt(shorten('https://example.com/A'), shorten('https://example.com/a'), 'paths have case');
CREATE TEMP TABLE given AS SELECT shorten('http://x.example/b/?utm_source=y') AS code, shorten('https://x.example/b') AS later;
SELECT is((SELECT location FROM given, resolve(code)), 'http://x.example/b/?utm_source=y', 'the visitor goes to the URL as given first');
SELECT is((SELECT location FROM given, resolve(later)), 'http://x.example/b/?utm_source=y', 'whoever asked later');
SELECT is(shorten(NULL), NULL, 'NULL for NULL');
SELECT is((SELECT count(DISTINCT shorten('https://twice.example/')) FROM generate_series(1, 100)), 1::bigint, 'one code within a statement');
CREATE TEMP TABLE orders (url text, code text);
INSERT INTO orders SELECT url, shorten(url) FROM (SELECT 'https://shop.example/' || i % 10 AS url FROM generate_series(1, 100) i) u;
SELECT is((SELECT count(DISTINCT code) || ' ' || count(DISTINCT (url, code)) FROM orders), '10 10', 'in an INSERT of the caller''s own');
SELECT throws_ok($$ SELECT shorten('https://example.com/', 'nobody') $$, '42704', 'workspace "nobody" does not exist', 'an unknown workspace');

-- Refused
SELECT throws_ok($$ SELECT shorten('javascript:alert(1)') $$, NULL, NULL, 'another scheme');
SELECT throws_ok($$ SELECT shorten('/path') $$, NULL, NULL, 'a relative URL');
SELECT throws_ok($$ SELECT shorten('https://good@evil.example/') $$, '22023', NULL, 'credentials');
SELECT throws_ok($$ SELECT shorten('https://example.com/' || repeat('a', 2029)) $$, '22001', NULL, '2,049 characters');
SELECT lives_ok($$ SELECT shorten('https://example.com/' || repeat('a', 2028)) $$, '2,048 characters');
SELECT throws_ok($$ SELECT shorten('https://example.com/' || repeat('a', 1000000)) $$, NULL, NULL, 'a megabyte');
SELECT add_domain('go.example');
SELECT throws_ok(format('SELECT shorten(%L)', url), '22023', NULL, url || ' is ours')
    FROM unnest('{https://go.example/x,http://GO.example./,https://go.example:443/,http://go.example:8080/}'::text[]) url;
SELECT block_host('evil.example'), block_host('*.bad.example', 'phishing');
SELECT throws_ok($$ SELECT shorten('http://EVIL.example./') $$, '22023', NULL, 'a blocked host');
SELECT lives_ok($$ SELECT shorten('http://www.evil.example/') $$, 'and not those below it');
SELECT throws_ok($$ SELECT shorten('http://a.b.bad.example/') $$, '22023', NULL, 'hosts below a blocked domain');
SELECT lives_ok($$ SELECT shorten('http://bad.example/') $$, 'and not the domain itself');

-- Many
SELECT results_eq($$ SELECT ordinal, url, short_code IS NOT NULL, created, error FROM
        shorten_many('{https://m.example/1,nonsense,NULL,http://m.example/1/,https://m.example/2,https://a.bad.example/,https://go.example/,https://example.com/a}') $$,
    $$ VALUES (1::bigint, 'https://m.example/1', true, true, NULL), (2, 'nonsense', false, NULL, 'URL "nonsense" has no scheme'),
        (3, NULL, false, NULL, 'URL is null'), (4, 'http://m.example/1/', true, false, NULL), (5, 'https://m.example/2', true, true, NULL),
        (6, 'https://a.bad.example/', false, NULL, 'URL "https://a.bad.example/" leads to a blocked host'),
        (7, 'https://go.example/', false, NULL, 'URL "https://go.example/" leads to a domain of this shortener'),
        (8, 'https://example.com/a', true, false, NULL) $$, 'a bad URL spoils only its own row');
SELECT is((SELECT string_agg(DISTINCT short_code, ' ') FROM shorten_many('{https://m.example/1,http://m.example/1}')), shorten('https://m.example/1'), 'the codes are those of shorten');
SELECT is_empty($$ SELECT * FROM link WHERE original_url ~ 'bad.example/$' AND original_url !~ '//bad' OR original_url ~ 'go.example|nonsense' $$, 'nothing is stored for a refused URL');
SELECT is((SELECT count(DISTINCT short_code) FROM shorten_many((SELECT array_agg('https://bulk.example/' || i) FROM generate_series(1, 5000) i))), 5000::bigint, 'five thousand at once');
SELECT count(*) FROM shorten_many((SELECT array_agg('https://memory.example/' || i) FROM generate_series(1, 100000) i));
SELECT cmp_ok(substring(pg_read_file('/proc/self/status') FROM 'VmHWM:\s+(\d+) kB')::integer, '<', 600000, 'a hundred thousand take less than 600 MB');
INSERT INTO blocked_host (pattern) SELECT 'h' || i || '.feed.example' FROM generate_series(1, 40000) i;
SET LOCAL statement_timeout = '30s'; -- one comparison of each URL with each blocked host would take longer
SELECT is((SELECT count(error) FROM shorten_many((SELECT array_agg('https://h' || i || '.feed.example/') FROM generate_series(1, 40000) i))), 40000::bigint, 'many blocked hosts');
RESET statement_timeout;
SELECT is_empty($$ SELECT * FROM shorten_many(NULL) $$, 'no array, no rows');

-- Hosts that no DNS has, and other ways to write one
CREATE TEMP TABLE host_limits AS SELECT repeat('a.', 125) || 'abc' AS longest, repeat('a.', 125) || 'abcd' AS too_long, repeat('.', 127) || 'a' AS too_many;
SELECT lives_ok(format('SELECT shorten(%L)', 'http://' || longest || './'), 'a host of 253 characters') FROM host_limits;
SELECT throws_ok(format('SELECT shorten(%L)', 'http://' || too_long || '/'), '22023', NULL, 'one of 254') FROM host_limits;
SELECT throws_ok(format('SELECT shorten(%L)', 'http://a' || too_many || '/'), '22023', NULL, 'one of 128 labels') FROM host_limits;
SELECT block_host('127.0.0.1'), block_host('[::ffff:10.0.0.1]');
SELECT throws_ok(format('SELECT shorten(%L)', url), '22023', NULL, url || ' is blocked')
    FROM unnest('{http://evil.example../,http://[::ffff:127.0.0.1]/,http://[::ffff:7f00:1]/,http://0x7f.1/,http://10.0.0.1/,http://[::ffff:a00:1]/}'::text[]) url;
SELECT lives_ok($$ SELECT shorten('http://[::ffff:127.0.0.2]/') $$, 'another address is not');
SET LOCAL statement_timeout = '60s';
SELECT is((SELECT count(*) || ' ' || count(error) FROM shorten_many((SELECT array_agg('http://' || repeat('a.', 1000) || i || 'x/') FROM generate_series(1, 1000) i) || 'https://among.example/'::text)),
    '1001 1000', 'hosts of a thousand labels are refused, each for itself');
SELECT is((SELECT count(*) || ' ' || count(error) FROM shorten_many((SELECT array_agg('http://' || repeat('a.', 120) || i || 'x/') FROM generate_series(1, 5000) i))),
    '5000 0', 'many hosts of many labels');
RESET statement_timeout;
SELECT cmp_ok(substring(pg_read_file('/proc/self/status') FROM 'VmHWM:\s+(\d+) kB')::integer, '<', 600000, 'take no more memory');

SELECT is((SELECT count(*) FROM shorten_many(array_fill(repeat('x', 64), '{1000000}')) WHERE error IS NOT NULL), 1000000::bigint, 'a million refused URLs');
SELECT cmp_ok(substring(pg_read_file('/proc/self/status') FROM 'VmHWM:\s+(\d+) kB')::integer, '<', 600000, 'nor do they');
SELECT throws_ok(format('SELECT * FROM shortener.search_links(%L)', query), '22023', NULL, 'a search query is not longer than a person writes: ' || left(query, 4))
    FROM unnest(ARRAY[repeat('a.', 100000), repeat('"a b" -', 100000)]) query;
SELECT throws_ok(format('SELECT * FROM shortener.%s', call), '22023', 'max_rows must not be negative', call)
    FROM unnest(ARRAY['list_links(max_rows => -1)', $$search_links('a', max_rows => -1)$$, 'top_links(max_rows => -1)', $$click_breakdown(NULL, 'os', max_rows => -1)$$]) call;

-- What errors show
CREATE FUNCTION pg_temp.error_of(call text, OUT message text, OUT context text) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE call;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, context = PG_EXCEPTION_CONTEXT;
END $$;
SELECT cmp_ok(octet_length((pg_temp.error_of(format(call, repeat('x', 100000)))).message), '<', 300, call || ' has a short message')
    FROM unnest(ARRAY['SELECT shortener.shorten(%L)', $$ SELECT shortener.create_link('http://a/', %L) $$, $$ SELECT shortener.shorten('http://a/', %L) $$,
        $$ SELECT shortener.normalize_url('http://a/', ARRAY[%L]) $$, $$ SELECT shortener.shorten('http://a/' || %L) $$]) call;
SELECT unalike((pg_temp.error_of(format('SELECT shortener.%s(%L)', f, url))).message, '%secret%', f || ' hides the password of ' || url)
    FROM unnest('{shorten,create_link}'::text[]) f,
         unnest('{https://me:secret@a.example/,https:\\\\me:secret@a.example,https://me:secret/word@a.example/,https:me:secret@a.example,http://me:secret@a:70000/,//me:secret@a.example}'::text[]) url;
SELECT unalike((SELECT error FROM shorten_many('{https://me:secret@a.example/}')), '%secret%', 'so does shorten_many');
SELECT alike((pg_temp.error_of($$ SELECT shortener.shorten('https://evil.example/@me') $$)).message, '%https://evil.example/@me%', 'which is not in a path');
SELECT unalike((pg_temp.error_of($$ SELECT shortener.create_link('https://evil.example.com/', alias => 'admin') $$)).context, '%INSERT%', 'the caller does not see our statements');

-- Arrays are read as unnest reads them.
SELECT results_eq($$ SELECT ordinal, url FROM shorten_many('[0:1]={https://m.example/1,https://m.example/2}') $$,
    $$ VALUES (1::bigint, 'https://m.example/1'), (2, 'https://m.example/2') $$, 'ordinals count from 1, whatever the bounds of the array');
SELECT results_eq($$ SELECT ordinal, url FROM shorten_many('{{https://m.example/1,https://m.example/2},{NULL,https://m.example/1}}') $$,
    $$ VALUES (1::bigint, 'https://m.example/1'), (2, 'https://m.example/2'), (3, NULL), (4, 'https://m.example/1') $$, 'and go row by row through dimensions');

-- Triggers and policies of the user's own
CREATE FUNCTION pg_temp.meddle() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_ARGV[0] = 'digest' THEN NEW.url_digest := NULL; END IF;
    IF TG_ARGV[0] = 'code' THEN NEW.short_code := 'my' || NEW.short_code; END IF;
    IF TG_ARGV[0] = 'id' THEN NEW.id := NEW.id + 1000000000; END IF;
    RETURN CASE WHEN TG_ARGV[0] <> 'drop' THEN NEW END;
END $$;
CREATE TRIGGER a_user BEFORE INSERT ON link FOR EACH ROW EXECUTE FUNCTION pg_temp.meddle('digest');
SELECT is((SELECT count(short_code) FROM shorten_many('{https://u.example/1,https://u.example/2}')), 2::bigint, 'shorten_many does without a digest');
CREATE TEMP TABLE without_digest AS SELECT shorten('https://u.example/1') AS code;
SELECT is((SELECT count(*) FROM without_digest JOIN link ON short_code = code AND url_digest IS NULL), 1::bigint, 'so does shorten');
DROP TRIGGER a_user ON link;
CREATE TRIGGER a_user BEFORE INSERT ON link FOR EACH ROW EXECUTE FUNCTION pg_temp.meddle('code');
CREATE TEMP TABLE changed AS SELECT short_code FROM shorten_many('{https://u.example/3,https://u.example/4}') UNION ALL
    SELECT shorten('https://u.example/5') UNION ALL SELECT short_code FROM create_link('https://u.example/6', alias => 'alias-6');
SELECT is((SELECT count(*) FROM changed JOIN link USING (short_code) WHERE short_code LIKE 'my%'), 4::bigint, 'the code that is stored is the one that is reported');
DROP TRIGGER a_user ON link;
CREATE TRIGGER a_user BEFORE INSERT ON link FOR EACH ROW EXECUTE FUNCTION pg_temp.meddle('id');
SELECT throws_ok($$ SELECT shorten_many('{https://u.example/7,https://u.example/8}') $$, '09000', NULL, 'another id is an error');
DROP TRIGGER a_user ON link;
CREATE TRIGGER a_user BEFORE INSERT ON link FOR EACH ROW EXECUTE FUNCTION pg_temp.meddle('drop');
CREATE TEMP TABLE numbers AS SELECT last_value FROM link_id_seq;
SELECT throws_ok(call, '55000', NULL, call || ' gives up when a trigger drops the link')
    FROM unnest(ARRAY[$$ SELECT shortener.shorten('https://u.example/9') $$, $$ SELECT shortener.shorten_many('{https://u.example/9,https://u.example/10}') $$,
        $$ SELECT shortener.create_link('https://u.example/9', alias => 'dropped') $$]) call;
SELECT cmp_ok(s.last_value - n.last_value, '<=', 40::bigint, 'and burns few numbers') FROM link_id_seq s, numbers n;
DROP TRIGGER a_user ON link;

-- Properties and aliases
SELECT results_eq($$ SELECT short_code, short_url, original_url, expires_at, created FROM create_link('https://p.example/', alias => 'My_alias-1') $$,
    $$ VALUES ('My_alias-1', 'https://go.example/My_alias-1', 'https://p.example/', NULL::timestamptz, true) $$, 'an alias');
SELECT isnt(shorten('https://p.example/'), 'My_alias-1', 'is a link of its own');
SELECT isnt((SELECT short_code FROM create_link('https://p.example/', reuse => false)), shorten('https://p.example/'), 'so is one that shall not be reused');
SELECT is((SELECT created FROM create_link('https://p.example/')), false, 'otherwise the link that is there');
SELECT throws_ok($$ SELECT create_link('https://p.example/', alias => 'My_alias-1') $$, '23505', 'short code "My_alias-1" is taken', 'a taken alias');
SELECT throws_ok(format('SELECT create_link(%L, alias => %L)', 'https://p.example/', alias), '22023', NULL, 'no alias: ' || left(alias, 9))
    FROM unnest(ARRAY['', 'a b', 'ä', 'a.b', repeat('a', 51)]) alias;
SELECT throws_ok($$ SELECT create_link('https://p.example/', alias => 'ADMIN') $$, '42939', NULL, 'a reserved word');
INSERT INTO reserved_code VALUES ('ours');
SELECT throws_ok($$ SELECT create_link('https://p.example/', alias => 'Ours') $$, '42939', NULL, 'one that was added');
SELECT lives_ok($$ SELECT create_link('https://p.example/', alias => repeat('a', 50)) $$, 'fifty characters');
SELECT throws_ok($$ SELECT create_link(NULL) $$, '22004', NULL, 'no URL');
SELECT throws_ok($$ SELECT create_link('https://p.example/', redirect_status => 200) $$, '22023', NULL, 'no redirect');
SELECT throws_ok($$ SELECT create_link('https://p.example/', expires_at => now()) $$, '22023', NULL, 'an expiry in the past');
SELECT lives_ok($$ SELECT create_link('https://q.example/', 'q', '2200-01-01', 308, 'The title', 'Some words', '{"k": 1}', '192.0.2.1') $$, 'all properties');
SELECT results_eq($$ SELECT original_url, expires_at, redirect_status, title, description, metadata, created_ip, created_by, is_active FROM get_link('q') $$,
    $$ VALUES ('https://q.example/', '2200-01-01'::timestamptz, 308, 'The title', 'Some words', '{"k": 1}'::jsonb, '192.0.2.1'::inet, current_user::text COLLATE "default", true) $$, 'are kept');

-- Life
SELECT is((SELECT expires_at FROM create_link('https://l.example/', expires_at => '2200-01-01')), '2200-01-01'::timestamptz, 'an expiry');
SELECT is((SELECT expires_at FROM create_link('https://l.example/', expires_at => '2150-01-01')), '2200-01-01'::timestamptz, 'never becomes earlier');
SELECT is((SELECT expires_at FROM create_link('https://l.example/', expires_at => '2250-01-01')), '2250-01-01'::timestamptz, 'but later');
SELECT is((SELECT expires_at FROM create_link('https://l.example/', expires_at => 'infinity')), NULL, 'and never is the latest');
SELECT is((SELECT expires_at FROM create_link('https://l.example/', expires_at => '2250-01-01')), NULL, 'for good');
SELECT create_link('https://r.example/', expires_at => '2200-01-01');
SELECT pg_temp.expire(short_code) FROM link WHERE original_url = 'https://r.example/';
SELECT is(pg_temp.status((SELECT short_code FROM link WHERE original_url = 'https://r.example/')), 410, 'expired');
SELECT is(shorten('https://r.example/'), (SELECT short_code FROM link WHERE original_url = 'https://r.example/'), 'is revived under its own code');
SELECT is(pg_temp.status(shorten('https://r.example/')), 302, 'and redirects');
SELECT pg_temp.expire(short_code) FROM link WHERE original_url = 'https://r.example/';
SELECT is((SELECT short_code FROM shorten_many('{https://r.example/}')), (SELECT short_code FROM link WHERE original_url = 'https://r.example/'), 'so it is among many');
SELECT is(pg_temp.status((SELECT short_code FROM link WHERE original_url = 'https://r.example/')), 302, 'and redirects');
SELECT pg_temp.expire('q');
SELECT ok(disable_link(shorten('https://r.example/')), 'disabled');
SELECT is(pg_temp.status(shorten('https://r.example/')), 410, 'stays disabled when it is shortened again');
SELECT ok(enable_link(shorten('https://r.example/')), 'enabled');
SELECT is(pg_temp.status(shorten('https://r.example/')), 302, 'redirects again');
CREATE TEMP TABLE before AS SELECT shorten('https://r.example/') AS code;
SELECT ok(delete_link(code), 'deleted') FROM before;
SELECT isnt(shorten('https://r.example/'), code, 'stays gone, and the URL has a new code') FROM before;
SELECT is(pg_temp.status(code), 410, 'the old one is gone') FROM before;
SELECT ok(NOT delete_link(code) AND NOT enable_link(code) AND NOT update_link(code, title => 'x'), 'nothing can be done with it') FROM before;
SELECT throws_ok($$ SELECT create_link('https://p.example/', alias => code) FROM before $$, '23505', NULL, 'its code is taken for ever');

-- Changes
SELECT ok(update_link('My_alias-1', url => 'https://new.example/', title => 'New', redirect_status => 301), 'an update');
SELECT results_eq($$ SELECT http_status, location FROM resolve('My_alias-1') $$, $$ VALUES (301, 'https://new.example/') $$, 'leads elsewhere');
SELECT ok((SELECT updated_at >= created_at AND title = 'New' FROM get_link('My_alias-1')), 'updated_at is kept');
SELECT ok(NOT update_link('nothing', title => 'x'), 'no such link');
SELECT throws_ok($$ SELECT update_link('My_alias-1', url => 'https://evil.example/') $$, '22023', NULL, 'a blocked host is refused');
CREATE TEMP TABLE moved AS SELECT shorten('https://from.example/') AS code;
SELECT ok(update_link(code, url => 'https://to.example/'), 'a reusable link moves') FROM moved;
SELECT isnt(shorten('https://from.example/'), code, 'its old URL has a new code') FROM moved;
SELECT isnt(shorten('https://to.example/'), code, 'and its new URL one of its own') FROM moved;

-- Styles, workspaces, lists
SELECT create_workspace('counted', code_style => 'sequential'), create_workspace('flakes', code_style => 'snowflake'), create_workspace('short', default_ttl => '1 hour');
CREATE TEMP TABLE counted AS SELECT shorten('https://s.example/', 'counted') AS code;
SELECT is(base62_decode(code), (SELECT max(id) FROM link), 'sequential: the number itself') FROM counted;
SELECT ok(snowflake_time(base62_decode(shorten('https://s.example/', 'flakes'))) > now() - '1 minute'::interval, 'snowflake: tells its time');
SELECT is((SELECT expires_at FROM create_link('https://s.example/', workspace => 'short')), statement_timestamp() + '1 hour', 'a default life');
SELECT create_link('https://alias.example/', alias => base62_encode(currval('link_id_seq') + 2), workspace => 'counted');
SELECT ok((SELECT created FROM create_link('https://s.example/2', workspace => 'counted')), 'a generated code steps aside for an alias');
SELECT create_link('https://alias.example/', alias => base62_encode(currval('link_id_seq') + 2), workspace => 'counted');
DELETE FROM link WHERE original_url = 'https://alias.example/' AND workspace_id = workspace_id('counted') AND id = currval('link_id_seq');
SELECT lives_ok($$ SELECT shorten('https://s.example/3', 'counted') $$, 'and for a retired code');
SELECT create_link('https://alias.example/', alias => base62_encode(currval('link_id_seq') + 2), workspace => 'counted');
DELETE FROM link WHERE original_url = 'https://alias.example/' AND workspace_id = workspace_id('counted') AND id = currval('link_id_seq');
SELECT lives_ok($$ SELECT shorten_many('{https://s.example/4}', 'counted') $$, 'many, too');
SELECT is((SELECT array_agg(link_id ORDER BY n) FROM list_links(max_rows => 3) WITH ORDINALITY l (link_id, a, b, c, d, e, f, g, h, i, j, k, l, m, n)),
    (SELECT array_agg(id) FROM (SELECT id FROM link WHERE workspace_id = workspace_id(NULL) AND deleted_at IS NULL ORDER BY id DESC LIMIT 3) l), 'a list, newest first');
SELECT is((SELECT count(*) FROM list_links(max_rows => 3, before_id => (SELECT min(link_id) FROM list_links(max_rows => 3)))), 3::bigint, 'its next page');
SELECT is((SELECT short_code FROM search_links('title words')), 'q', 'a search');
SELECT is_empty($$ SELECT * FROM search_links('title -words') $$, 'with a word that must not be there');
SELECT is((SELECT expired FROM link_overview WHERE slug = 'default'), 1::bigint, 'the overview counts the expired');
SELECT is((SELECT count(*) FROM active_links WHERE short_code IN ('q', 'My_alias-1')), 1::bigint, 'active_links has only those that redirect');

SELECT is((SELECT count(*) FROM list_links(before => now())), 0::bigint, 'a list of what was made before a time');
SELECT is((SELECT count(*) FROM list_links(max_rows => 1000000, before => now() + '1 second'::interval)),
    (SELECT count(*) FROM link WHERE workspace_id = workspace_id(NULL) AND deleted_at IS NULL), 'or all');
WITH RECURSIVE page AS (
    SELECT array_agg(link_id) AS ids FROM list_links(max_rows => 20000)
    UNION ALL
    SELECT (SELECT array_agg(link_id) FROM list_links(max_rows => 20000, before_id => (SELECT min(id) FROM unnest(p.ids) id)))
    FROM page p WHERE p.ids IS NOT NULL)
SELECT is((SELECT count(*) || ' ' || count(DISTINCT id) FROM page, unnest(ids) id),
    (SELECT count(*) || ' ' || count(*) FROM link WHERE workspace_id = workspace_id(NULL) AND deleted_at IS NULL),
    'page by page every link once, though all are of one transaction');

-- Scrambled codes of removed links are known by the highest of their numbers.
SELECT create_workspace('numbers');
CREATE TEMP TABLE numbered AS SELECT n, shorten('https://number.example/' || n, 'numbers') AS code FROM generate_series(1, 4) n;
CREATE FUNCTION pg_temp.answer(wanted integer) RETURNS text LANGUAGE sql AS $$
    SELECT r.http_status || ' ' || r.cache_seconds FROM numbered, shortener.resolve(code) r WHERE n = wanted $$;
SET LOCAL shortener.default_workspace = 'numbers';
DELETE FROM link WHERE short_code = (SELECT code FROM numbered WHERE n = 2);
SELECT is(array_agg(pg_temp.answer(n) ORDER BY n), '{302 300,410 60,302 300,302 300}', 'a removed one is gone, the others are not') FROM numbered;
SELECT is((SELECT count(*) FROM retired_code WHERE workspace_id = workspace_id('numbers')), 0::bigint, 'without a row of its own');
SELECT is((SELECT http_status FROM resolve('zzzzzzz')), 404, 'an unknown code is unknown');
SELECT throws_ok($$ INSERT INTO link (id, workspace_id, short_code, original_url, redirect_status)
    SELECT n.highest, n.workspace_id, code, 'https://other.example/', 302 FROM retired_number n, numbered WHERE n = 2 $$, '23505', NULL, 'nobody can put it back by hand');
SELECT throws_ok($$ SELECT create_link('https://other.example/', alias => code) FROM numbered WHERE n = 2 $$, '23505', NULL, 'or take it as an alias');
SAVEPOINT removal;
DELETE FROM link WHERE short_code = (SELECT code FROM numbered WHERE n = 4);
ROLLBACK TO removal;
SELECT is(pg_temp.answer(4), '302 300', 'a removal that is rolled back removes nothing');
DELETE FROM link WHERE short_code = (SELECT code FROM numbered WHERE n = 1);
DELETE FROM link WHERE short_code = (SELECT code FROM numbered WHERE n = 3);
SELECT is(array_agg(pg_temp.answer(n) ORDER BY n), '{410 60,410 60,410 60,302 300}', 'more are removed') FROM numbered;
SELECT is((SELECT array_agg(codes) FROM retired_number WHERE workspace_id = workspace_id('numbers')), '{3}', 'one row tells of all');
SELECT is((SELECT retired FROM link_overview WHERE slug = 'numbers'), 3::bigint, 'and the overview counts them');
SELECT setval('link_id_seq', (SELECT min(highest) FROM retired_number) - 3);
CREATE TEMP TABLE after_all AS SELECT shorten('https://number.example/' || n, 'numbers') AS code FROM generate_series(5, 80) n;
SELECT is((SELECT count(*) || ' ' || count(DISTINCT code) FROM after_all WHERE code NOT IN (SELECT code FROM numbered)), '76 76', 'a sequence that goes back gives no code again');
UPDATE workspace SET code_style = 'sequential' WHERE slug = 'numbers';
SELECT is(pg_temp.answer(2), '410 60', 'another style changes nothing for them');
CREATE TEMP TABLE styled AS SELECT shorten('https://number.example/styled', 'numbers') AS code;
DELETE FROM link WHERE short_code = (SELECT code FROM styled);
SELECT is((SELECT http_status FROM styled, resolve(code)), 410, 'and codes of other styles are retired one by one');
SELECT is((SELECT array_agg(short_code COLLATE "default") FROM retired_code WHERE workspace_id = workspace_id('numbers')), (SELECT array_agg(code) FROM styled), 'with a row each');

-- Ids that somebody has given out by hand, or that come from a backup, ahead of the sequence
SELECT create_workspace('ahead');
INSERT INTO link (id, workspace_id, short_code, original_url, redirect_status)
    SELECT next.id + n, workspace_id('ahead'), 'ahead' || n, 'https://ahead.example/' || n, 302 FROM (SELECT nextval('link_id_seq')) next (id), generate_series(0, 100) n;
SELECT lives_ok(format('SELECT create_link(%L, %L, workspace => ''ahead'')', 'https://alias.example/' || n, 'alias-' || n), 'an alias beside ids ahead of the sequence')
    FROM generate_series(1, 2) n;
INSERT INTO link (id, workspace_id, short_code, original_url, redirect_status)
    SELECT last_value + n, workspace_id('ahead'), 'further' || n, 'https://ahead.example/' || n, 302 FROM link_id_seq, generate_series(1, 100) n;
SELECT lives_ok($$ SELECT shorten('https://ahead.example/one', 'ahead') $$, '... and a code');
INSERT INTO link (id, workspace_id, short_code, original_url, redirect_status)
    SELECT last_value + n, workspace_id('ahead'), 'last' || n, 'https://ahead.example/' || n, 302 FROM link_id_seq, generate_series(1, 100) n;
SELECT is((SELECT count(short_code) FROM shorten_many('{https://ahead.example/two,https://ahead.example/three}', 'ahead')), 2::bigint, '... and many');
RESET shortener.default_workspace;

-- Within the caller's transaction
SAVEPOINT order_fails;
CREATE TEMP TABLE undone AS SELECT shorten('https://undone.example/') AS code;
SELECT is(pg_temp.status(code), 302, 'a link can be followed in its own transaction') FROM undone;
SELECT code AS undone FROM undone \gset
ROLLBACK TO order_fails;
SELECT is(pg_temp.status(:'undone'), 404, 'and is gone with it');
SELECT is_empty($$ SELECT * FROM link WHERE original_url = 'https://undone.example/' $$, 'without a trace');

-- A role that may make links sees neither the secrets behind codes and digests nor the blocklist.
CREATE ROLE shortener_test_writer;
GRANT USAGE ON SCHEMA shortener TO shortener_test_writer;
GRANT SELECT, INSERT, UPDATE ON link TO shortener_test_writer;
GRANT USAGE ON SEQUENCE link_id_seq TO shortener_test_writer;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO shortener_test_writer;
SET LOCAL ROLE shortener_test_writer;
CREATE TEMP TABLE written AS SELECT shorten('https://w.example/1') AS one, (SELECT short_code FROM shorten_many('{https://w.example/2}')) AS two,
    update_link(shorten('https://w.example/1'), title => 'mine') AS updated;
SELECT throws_ok($$ SELECT shorten('http://a.b.bad.example/') $$, '22023', NULL, 'the blocklist holds for it');
SELECT throws_ok($$ SELECT * FROM shorten_many('{https://w.example/3}', 'nobody') $$, '42704', NULL, 'so does the list of workspaces');
SELECT throws_ok('SELECT * FROM shortener.' || secret, '42501', NULL, secret || ' is not for it')
    FROM unnest('{workspace_key,installation,blocked_host}'::text[]) secret;
RESET ROLE;
GRANT SELECT ON domain TO shortener_test_writer;
GRANT SELECT (id, slug) ON workspace TO shortener_test_writer;
SET LOCAL ROLE shortener_test_writer;
SELECT create_link('https://w.example/4', alias => 'written');
SELECT is((SELECT created_by FROM get_link('written')), 'shortener_test_writer', 'created_by is the current role');
SELECT ok(EXISTS (SELECT FROM get_link('written'))
    AND disable_link('written') AND enable_link('written') AND delete_link('written')
    AND EXISTS (SELECT FROM list_links()) AND EXISTS (SELECT FROM search_links('mine')), 'with two more rights it does all the rest');
RESET ROLE;
SELECT is((SELECT count(*) FROM written, link WHERE short_code IN (one, two) AND updated), 2::bigint, 'it makes links');

CREATE POLICY later_ones ON link AS RESTRICTIVE USING (id > (SELECT last_value FROM numbers));
GRANT SELECT ON numbers TO shortener_test_writer;
SET LOCAL ROLE shortener_test_writer;
SELECT throws_ok(call, '55000', NULL, call || ' gives up when a policy hides the link')
    FROM unnest(ARRAY[$$ SELECT shortener.shorten('https://m.example/1') $$, $$ SELECT shortener.shorten_many('{https://m.example/1}') $$]) call;
RESET ROLE;
DROP POLICY later_ones ON link;

SELECT * FROM finish();
ROLLBACK;
