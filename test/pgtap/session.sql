BEGIN;
CREATE EXTENSION shortener CASCADE;
CALL shortener.install();
SET LOCAL search_path = shortener, public;
SELECT plan(45);

CREATE ROLE shortener_test_app;
CREATE ROLE shortener_test_reader;
SELECT create_workspace('acme'), create_workspace('beta');
SELECT grant_access('shortener_test_app', 'writer');
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO shortener_test_app, shortener_test_reader;
SELECT create_api_key('acme', workspace => 'acme') AS acme, create_api_key('beta', workspace => 'beta') AS beta,
       create_api_key('read', '{links:read}', workspace => 'beta') AS reading \gset
SELECT shorten('https://example.com/', 'acme') AS acme_code, shorten('https://example.com/', 'beta') AS beta_code \gset
SELECT expires_at FROM create_link('https://lives.example/', expires_at => now() + interval '1 hour', workspace => 'beta') \gset
UPDATE workspace SET default_ttl = '1 day' WHERE slug = 'beta';

-- Nobody has authenticated
SELECT is(current_workspace(), 'default', 'the owner works in the default workspace');
SET LOCAL shortener.default_workspace = 'acme';
SELECT is(current_workspace(), 'acme', 'which is a setting');
SET LOCAL ROLE shortener_test_app;
SELECT is(current_workspace(), 'default', 'that decides nothing for a role under row-level security');
SELECT throws_ok($$ SELECT shorten('https://example.com/', 'acme') $$, '42704', 'workspace "acme" does not exist', 'other workspaces are not there');
SELECT throws_ok($$ SELECT shorten('https://example.com/', 'nobody') $$, '42704', 'workspace "nobody" does not exist', 'in the same words as one that is not');
SELECT is(current_user_id(), NULL, 'no user');
SELECT is(current_api_key(), NULL, 'no key');
SELECT is(current_scopes(), '{links:read,links:write,analytics:read,admin}', 'no key restricts it');

-- Authenticated
SELECT is(authenticate(:'acme'), 'acme', 'authenticate returns the workspace');
SELECT is(current_workspace(), 'acme', 'which is current');
SELECT is(current_api_key(), left(:'acme', 11), 'the prefix of the key');
SELECT is(current_scopes(), '{links:read,links:write}', 'its scopes');
SELECT is(shorten('https://example.com/'), :'acme_code', 'its links');
SELECT results_eq('SELECT short_code FROM link', ARRAY[:'acme_code' COLLATE "C"], 'and no others');
SELECT throws_ok($$ SELECT shorten('https://example.com/', 'beta') $$, '42704', NULL, 'another workspace by name');
SAVEPOINT before;
SELECT is(authenticate(:'beta'), 'beta', 'authenticate again');
SELECT is(current_workspace(), 'beta', 'for another workspace');
ROLLBACK TO before;
SELECT is(current_workspace(), 'acme', 'a savepoint takes it back');
SAVEPOINT before;
SELECT authenticate(:'beta');
RELEASE before;
SELECT is(current_workspace(), 'beta', 'a released one does not');

-- Scopes
SELECT authenticate(:'reading');
SELECT is(shorten('https://example.com/'), :'beta_code', 'a key for reading finds');
SELECT throws_ok($$ SELECT shorten('https://example.com/new') $$, '42501', NULL, 'and does not make');
SELECT is((SELECT count(*) FROM link), 2::bigint, 'reads');
SELECT throws_ok(call, '42501', format('API key "%s" does not have scope links:write', left(:'reading', 11)), '... says so: ' || call) FROM unnest(ARRAY[
    'SELECT update_link(''x'', title => ''y'')', 'SELECT disable_link(''x'')', 'SELECT enable_link(''x'')', 'SELECT delete_link(''x'')',
    'SELECT tag_link(''x'', ''y'')', 'SELECT untag_link(''x'', ''y'')']) call;
SELECT throws_ok('SELECT shorten(''https://lives.example/'')', '42501', NULL, '... also when a link would live longer');
SELECT throws_ok('SELECT shorten_many(''{https://lives.example/}'')', '42501', NULL, '... or links');
UPDATE link SET is_active = false;
SELECT is((SELECT count(*) FROM link WHERE NOT is_active), 0::bigint, 'and does not change');
SELECT throws_ok($$ SELECT require_scope('everything') $$, '22023', 'unknown scope', 'a scope that is none');
SELECT throws_ok($$ SELECT permitted_workspace('everything') $$, '22023', 'unknown scope', 'an unknown scope');

-- What is no key
SELECT throws_ok(format('SELECT authenticate(%L)', key), '28000', 'invalid API key', 'no key')
    FROM (VALUES (NULL), (''), ('sk_'), (left(:'acme', -1)), (:'acme' || '0'), (lower(:'acme')), (repeat('x', 100000))) k (key);
SELECT is(current_workspace(), 'beta', 'a wrong key changes nothing');

-- Nothing but authenticate() makes an identity
SELECT throws_ok($$ SELECT set_config('shortener.session_key', 'sk_01234567', false) $$, '22023', NULL, 'the setting cannot be forged');
SELECT lives_ok($$ RESET shortener.session_key $$, 'but reset');
SELECT is(current_workspace(), 'beta', 'which ends the identity of the session, not of the transaction');

-- A role that is bound
RESET ROLE;
SELECT bind_role('shortener_test_reader', NULL);
SELECT grant_access('shortener_test_reader', 'analyst');
DO $$ BEGIN PERFORM set_config('shortener.default_workspace', 'acme', true); END $$;
SELECT is(current_workspace(), 'beta', 'an identity is not of one role');

SELECT * FROM finish();
ROLLBACK;
