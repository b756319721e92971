BEGIN;
CREATE EXTENSION shortener CASCADE;
CALL shortener.install();
SET LOCAL search_path = shortener, public;
SELECT plan(21);

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
SELECT throws_ok($$ SELECT update_workspace('acme', new_slug => 'default') $$, '23505', NULL, 'a slug that is taken');
SELECT is(update_workspace('acme', new_slug => 'apex'), true, 'another slug');
SELECT is(shorten('https://example.com/', 'apex'), :'code', 'the same links');
SELECT throws_ok($$ SELECT shorten('https://example.com/', 'acme') $$, '42704', NULL, 'under that name alone');

SELECT is((SELECT location FROM resolve(:'code', 'go.acme.example')), 'https://example.com/', 'a link');
SELECT is(delete_workspace('apex'), true, 'deleted');
SELECT is(delete_workspace('apex'), false, 'once');
SELECT is((SELECT http_status FROM resolve(:'code', 'go.acme.example')), 410, 'its links are gone at once');
SELECT is((SELECT location FROM resolve(:'code', 'go.acme.example')), NULL, 'wherever they led');
SELECT throws_ok($$ SELECT shorten('https://example.com/', 'apex') $$, '42704', 'workspace "apex" does not exist', 'nobody works in it');
SELECT throws_ok($$ SELECT list_links('apex') $$, '42704', NULL, 'or looks at it');
SELECT throws_ok($$ SELECT create_workspace('apex') $$, '23505', NULL, 'its slug stays taken');
SELECT is(restore_workspace('apex'), true, 'restored');
SELECT is(restore_workspace('apex'), false, 'once');
SELECT is((SELECT location FROM resolve(:'code', 'go.acme.example')), 'https://example.com/', 'its links are back');

SELECT * FROM finish();
ROLLBACK;
