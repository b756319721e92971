BEGIN;
CREATE EXTENSION shortener CASCADE;
CALL shortener.install();
SET LOCAL search_path = shortener, public;
SELECT plan(77);

SELECT is(host_from_header('Go.Example.COM.:8443'), 'go.example.com', 'a host loses case, dot and port');
SELECT is(host_from_header('[2001:DB8::1]:80'), '[2001:db8::1]', 'an IPv6 address keeps its colons');
SELECT is(host_from_header('[::1'), '[::1', 'no bracket, no address');
SELECT is(host_from_header(''), '', 'nothing is nothing');
SELECT is(length(random_key()), 16, 'a key has 16 bytes');
SELECT isnt(random_key(), random_key(), 'and never the same');

SELECT lives_ok($$ SELECT create_workspace('team-1', 'Team', 'sequential', '{sort_query}', '1 day', 301) $$, 'a workspace');
SELECT results_eq($$ SELECT slug, name, code_style, rules, default_ttl, redirect_status::int FROM workspace WHERE slug = 'team-1' $$,
    $$ VALUES ('team-1' COLLATE "C", 'Team', 'sequential', '{sort_query}'::text[], '1 day'::interval, 301) $$, 'as it was asked for');
SELECT is((SELECT count(DISTINCT key) FROM workspace_key), 2::bigint, 'each workspace has a key of its own');
SELECT throws_ok($$ SELECT create_workspace('team-1') $$, '23505', NULL, 'a slug is unique');
SELECT throws_ok($$ SELECT create_workspace('Team') $$, '23514', NULL, 'a slug is lower case');
SELECT throws_ok($$ SELECT create_workspace(repeat('a', 64)) $$, '23514', NULL, 'a slug has at most 63 characters');
SELECT throws_ok($$ SELECT create_workspace('x', code_style => 'random') $$, '23514', NULL, 'an unknown code style');
SELECT throws_ok($$ SELECT create_workspace('x', redirect_status => 303) $$, '23514', NULL, 'an unknown redirect status');
SELECT throws_ok($$ SELECT create_workspace('x', default_ttl => '-1 day') $$, '23514', NULL, 'a life in the past');

SELECT lives_ok($$ SELECT add_domain('GO.example.com.', 'team-1') $$, 'a domain');
SELECT results_eq('SELECT host FROM domain', $$ VALUES ('go.example.com' COLLATE "C") $$, 'in its plain form');
SELECT throws_ok($$ SELECT add_domain('go.example.com:80') $$, '23505', NULL, 'a domain belongs to one workspace');
SELECT throws_ok($$ SELECT add_domain('b.example', 'nobody') $$, '42704', 'workspace "nobody" does not exist', 'an unknown workspace');

SELECT throws_ok($$ SELECT create_workspace('x', rules => '{sort}') $$, '22023', NULL, 'an unknown rule');
SELECT lives_ok($$ SELECT add_domain('Bücher.example') $$, 'a domain beyond ASCII');
SELECT is((SELECT count(*) FROM domain WHERE host = 'xn--bcher-kva.example'), 1::bigint, 'as browsers ask for it');
SELECT lives_ok($$ SELECT block_host('*.Evil.example', 'spam'), block_host('evil.example'), block_host('evil.example', 'again') $$, 'hosts are blocked');

SELECT throws_ok(format('SELECT add_domain(%L)', host), '22023', format('"%s" is not a host', host), 'no host: ' || host)
    FROM unnest('{https://go.example.com,go.example.com/path,10.0.0.0/8,user@go.example.com,.example.com}'::text[]) host;
SELECT throws_ok($$ SELECT block_host('https://evil.example/') $$, '22023', NULL, 'nor to block');
SELECT throws_ok($$ SELECT add_domain('*.example.com') $$, '23514', NULL, 'a domain is one host');
SELECT lives_ok($$ SELECT add_domain('[2001:DB8::0001]:80'), block_host('[::ffff:127.0.0.1]') $$, 'an IPv6 address is a host');
SELECT throws_ok($$ SELECT shorten('http://[::FFFF:7f00:1]:8080/') $$, '22023', NULL, 'and can be blocked');

-- What is refused is refused in words.
SELECT throws_ok(call, '23514', message, call) FROM (VALUES
    ($$SELECT create_workspace('Team')$$, 'workspace slug "Team" is not valid'),
    ($$SELECT create_workspace('x', code_style => 'random')$$, 'code style "random" is not valid'),
    ($$SELECT create_workspace('x', redirect_status => 303)$$, 'redirect status 303 is not valid'),
    ($$SELECT create_workspace('x', redirect_status => 70000)$$, 'redirect status 70000 is not valid'),
    ($$SELECT create_workspace('x', default_ttl => '-1 day')$$, 'default_ttl "-1 days" is not valid'),
    ($$SELECT add_domain('*.example.com')$$, '"*.example.com" is not valid as a domain'),
    ($$SELECT block_host('*.*.example')$$, '"*.*.example" is not valid as a pattern of hosts')) c (call, message);
SELECT throws_ok($$ SELECT create_workspace('team-1') $$, '23505', 'workspace "team-1" already exists', 'a slug that is taken');
SELECT throws_ok($$ SELECT add_domain('go.example.com') $$, '23505', 'domain "go.example.com" already belongs to a workspace', 'a domain that is taken');
SELECT throws_ok(call, '22023', message, call) FROM (VALUES
    ($$SELECT add_domain(repeat('long.', 50) || 'name')$$, 'host "' || repeat('long.', 12) || 'long" is too long'),
    ($$SELECT block_host('*.' || repeat('long.', 50) || 'name')$$, 'host "' || repeat('long.', 12) || 'long" is too long'),
    ($$SELECT block_host(repeat('x', 300000000))$$, 'host "' || repeat('x', 64) || '" is too long'),
    ($$SELECT reserve_code('a b')$$, '"a b" cannot be a code'),
    ($$SELECT reserve_code('')$$, '"" cannot be a code'),
    ($$SELECT reserve_code(repeat('x', 300000000))$$, '"' || repeat('x', 64) || '" cannot be a code')) c (call, message);
SELECT lives_ok($$ SELECT add_domain(repeat('long.', 49) || 'nameabcd') $$, 'a host of 253 characters');
SELECT throws_ok(call, '22004', NULL, call || ' of nothing')
    FROM unnest('{SELECT create_workspace(NULL),SELECT add_domain(NULL),SELECT block_host(NULL),SELECT reserve_code(NULL)}'::text[]) call;
SELECT lives_ok($$ SELECT reserve_code('Careers'), reserve_code('careers') $$, 'a word is reserved');
SELECT throws_ok($$ SELECT create_link('https://a.example/', alias => 'CAREERS') $$, '42939', NULL, 'in any case of letters');
SELECT throws_ok($$ UPDATE workspace SET rules = '{typo}' $$, '23514', NULL, 'a workspace has no unknown rule');
SELECT throws_ok($$ UPDATE workspace SET rules = '{sort_query,NULL}' $$, '23514', NULL, 'nor one that is NULL');
SELECT throws_ok($$ DELETE FROM workspace WHERE slug = 'team-1' $$, '23503', NULL, 'a workspace with domains cannot be removed, so its hosts never serve the codes of another');

-- What stands in several places is the same everywhere.
CREATE FUNCTION pg_temp.accepts(call text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE call;
    RETURN true;
EXCEPTION WHEN OTHERS THEN
    RETURN false;
END $$;
SELECT set_eq(format($$ SELECT s::text FROM generate_series(299, 310) s WHERE pg_temp.accepts(format(%L, s)) $$, call),
    ARRAY['301', '302', '307', '308'], 'redirect statuses: ' || call)
    FROM unnest(ARRAY[$$SELECT create_workspace('status-%1$s', redirect_status => %1$s)$$,
        $$SELECT create_link('https://a.example/', reuse => false, redirect_status => %1$s)$$,
        $$INSERT INTO link (workspace_id, short_code, original_url, redirect_status) VALUES (1, 'status-%1$s', 'https://a.example/', %1$s)$$]) call;
SELECT is_empty($$ SELECT style FROM unnest('{scrambled,sequential,snowflake}'::text[]) style
    WHERE NOT pg_temp.accepts(format('SELECT create_workspace(%1$L, code_style => %1$L), shorten(''https://a.example/'', %1$L)', style)) $$,
    'every code style that a workspace may have makes codes');

CREATE TEMP TABLE spelling AS SELECT chr(n) || '-' AS code FROM generate_series(33, 126) n UNION VALUES (repeat('x', 50)), (repeat('x', 51)), ('');
SELECT record_unknown_codes(gen_random_uuid(), (SELECT array_agg(code) FROM spelling));
SELECT set_eq(format($$ SELECT code FROM spelling WHERE pg_temp.accepts(format(%L, code)) $$, call),
    $$ SELECT code FROM unknown_code WHERE code <> '' $$, 'what a code may be, as in record_unknown_codes: ' || call)
    FROM unnest(ARRAY[$$SELECT create_link('https://a.example/', alias => %L)$$,
        $$INSERT INTO link (workspace_id, short_code, original_url, redirect_status) VALUES (workspace_id('team-1'), %L, 'https://a.example/', 302)$$,
        $$SELECT reserve_code(%L)$$]) call; -- the last, because it stays
SELECT is(pg_get_function_arg_default('create_workspace'::regproc, 4), pg_get_function_arg_default('normalize_url'::regproc, 2),
    'rules of URLs: the defaults of create_workspace and normalize_url');
SELECT is((SELECT substring(pg_get_constraintdef(oid) FROM '{.*}') FROM pg_constraint WHERE conname = 'workspace_rules_check'),
    substring(pg_get_function_arg_default('normalize_url'::regproc, 2) FROM '{.*}'), '... and the constraint of the table');
SELECT is((SELECT substring(pg_get_constraintdef(oid) FROM '{.*}') FROM pg_constraint WHERE conname LIKE 'api_key_scopes%'),
    current_scopes()::text, 'scopes of API keys: the constraint of the table and current_scopes');
SELECT is_empty($$ SELECT scope FROM unnest(current_scopes()) scope WHERE NOT pg_temp.accepts(format('SELECT create_api_key(''x'', ARRAY[%L])', scope)) $$,
    '... create_api_key');
SELECT is_empty($$ SELECT scope FROM tenant_tables(), unnest(ARRAY[read_scope, write_scope]) scope
    WHERE scope IS NOT NULL AND NOT scope = ANY (current_scopes()) $$, '... and the policies');
SELECT is_empty($$ SELECT DISTINCT capability FROM access_rights() WHERE NOT pg_temp.accepts(format('SELECT grant_access(current_user, %L)', capability)) $$,
    'capabilities: access_rights, the table and grant_access');
SELECT add_domain('b.team.example', 'team-1'), add_domain('a.team.example', 'team-1');
CREATE TEMP TABLE address AS SELECT w.slug, l.* FROM unnest('{default,team-1}'::text[]) w (slug), create_link('https://address.example/', workspace => w.slug) l;
SELECT results_eq($$ SELECT g.short_url FROM address a, get_link(a.short_code, a.slug) g ORDER BY a.slug $$,
    $$ SELECT short_url FROM address ORDER BY slug $$, 'the address of a link: create_link and get_link');
SELECT is((SELECT short_url LIKE 'https://a.team.example/%' FROM address WHERE slug = 'team-1'), true, '... with the first domain');

SELECT lives_ok($$ SELECT set_page_texts('Nothing here.', NULL, 'team-1') $$, 'texts of the pages');
SELECT results_eq($$ SELECT * FROM page_texts((SELECT id FROM workspace WHERE slug = 'team-1')) $$,
    $$ VALUES ('Nothing here.', NULL::text) $$, 'read back');
SELECT is(length(notification_key()), 16, 'the notification key');

SELECT is((SELECT string_agg(p.oid::regprocedure::text, ', ') FROM pg_proc p
    WHERE p.pronamespace = 'shortener'::regnamespace AND p.prosecdef
      AND (p.proacl IS NULL OR has_function_privilege('public', p.oid, 'EXECUTE') OR p.proconfig IS NULL)), NULL,
    'a function with its owner''s rights pins search_path and is not for everybody');
SELECT is_empty($$ SELECT p.oid::regprocedure FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
    WHERE p.pronamespace = 'shortener'::regnamespace AND l.lanname = 'plpgsql'
      AND (p.proconfig @> '{"search_path=pg_catalog, pg_temp"}') IS NOT TRUE AND p.proname NOT IN ('cleanup_expired', 'rollup_clicks', 'maintain_clicks') $$,
    'all of plpgsql pins search_path, but for what commits, which does it in each of its transactions');

SELECT * FROM finish();
ROLLBACK;
