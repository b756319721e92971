BEGIN;
CREATE EXTENSION shortener CASCADE;
CALL shortener.install();
SET LOCAL search_path = shortener, public;
SELECT plan(33);

SELECT create_workspace('acme', default_ttl => '1 day');
SELECT add_domain('go.acme.example', 'acme');
SELECT shorten('https://example.com/', 'acme') AS code \gset

SELECT is(update_workspace('acme', name => 'Acme Inc.', redirect_status => 301, default_ttl => '0'), true, 'changed');
SELECT results_eq($$ SELECT slug, name, redirect_status::int, default_ttl, domains FROM workspace_settings WHERE workspace_id = 2 $$,
    $$ VALUES ('acme' COLLATE "C", 'Acme Inc.', 301, NULL::interval, ARRAY['go.acme.example'] COLLATE "C") $$, 'what was given');
SELECT is(update_workspace('acme'), true, 'NULL changes nothing');
SELECT is((SELECT name FROM workspace WHERE slug = 'acme'), 'Acme Inc.', 'nothing');
SELECT is(update_workspace('nobody', name => 'x'), false, 'no such workspace');
SELECT throws_ok($$ SELECT update_workspace('acme', rules => '{sort}') $$, '22023', NULL, 'an unknown rule');
SELECT throws_ok($$ SELECT update_workspace('acme', new_slug => 'default') $$, '23505', 'workspace "default" already exists', 'a slug that is taken');
SELECT throws_ok(format('SELECT update_workspace(''acme'', %s)', argument), '23514', message, message) FROM (VALUES
    ($$ new_slug => 'A' $$, 'workspace slug "A" is not valid'),
    ($$ code_style => 'random' $$, 'code style "random" is not valid'),
    ($$ redirect_status => 303 $$, 'redirect status 303 is not valid'),
    ($$ redirect_status => 100000 $$, 'redirect status 100000 is not valid'),
    ($$ default_ttl => '-1 day' $$, 'default_ttl "-1 days" is not valid')) e (argument, message);
SELECT is(update_workspace('acme', new_slug => 'apex'), true, 'another slug');
SELECT is(shorten('https://example.com/', 'apex'), :'code', 'the same links');
SELECT throws_ok($$ SELECT shorten('https://example.com/', 'acme') $$, '42704', NULL, 'under that name alone');

SELECT is((SELECT location FROM resolve(:'code', 'go.acme.example')), 'https://example.com/', 'a link');
CREATE ROLE shortener_test_bound;
CREATE ROLE shortener_test_keys;
SELECT grant_access('shortener_test_bound', 'writer', 'apex'), grant_access('shortener_test_keys', 'writer'), bind_role('shortener_test_keys', NULL);
SELECT create_api_key('apex', workspace => 'apex') AS key \gset
SET LOCAL ROLE shortener_test_bound;
SELECT cmp_ok((SELECT count(*) FROM link), '>', 0::bigint, 'a role that is bound to it');
RESET ROLE;
SELECT is(delete_workspace('apex'), true, 'deleted');
SELECT is(delete_workspace('apex'), false, 'once');
SELECT is((SELECT http_status FROM resolve(:'code', 'go.acme.example')), 410, 'its links are gone at once');
SELECT is((SELECT location FROM resolve(:'code', 'go.acme.example')), NULL, 'wherever they led');
SELECT throws_ok($$ SELECT shorten('https://example.com/', 'apex') $$, '42704', 'workspace "apex" does not exist', 'nobody works in it');
SELECT throws_ok($$ SELECT list_links('apex') $$, '42704', NULL, 'or looks at it');
SET LOCAL ROLE shortener_test_bound;
SELECT is((SELECT count(*) FROM link), 0::bigint, '... neither does a role that is bound to it');
SELECT throws_ok($$ INSERT INTO link (workspace_id, short_code, original_url, redirect_status) VALUES (2, 'late', 'https://late.example/', 302) $$, '42501', NULL, '... by any means');
SELECT throws_ok($$ SELECT shorten('https://late.example/') $$, '42501', 'role "shortener_test_bound" has no workspace to work in', '... nor through functions');
RESET ROLE;
SELECT restore_workspace('apex');
SET LOCAL ROLE shortener_test_keys;
SELECT authenticate(:'key');
SELECT cmp_ok((SELECT count(*) FROM link), '>', 0::bigint, 'who has authenticated');
RESET ROLE;
SELECT delete_workspace('apex');
SET LOCAL ROLE shortener_test_keys;
SELECT is((SELECT count(*) FROM link), 0::bigint, '... is turned out too');
SELECT is(current_workspace(), NULL, '... and works nowhere');
RESET ROLE;
SELECT throws_ok($$ SELECT create_workspace('apex') $$, '23505', NULL, 'its slug stays taken');
SELECT is(restore_workspace('apex'), true, 'restored');
SELECT is(restore_workspace('apex'), false, 'once');
SELECT is((SELECT location FROM resolve(:'code', 'go.acme.example')), 'https://example.com/', 'its links are back');

SELECT * FROM finish();
ROLLBACK;
