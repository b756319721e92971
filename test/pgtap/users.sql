BEGIN;
CREATE EXTENSION shortener CASCADE;
CALL shortener.install();
SET LOCAL search_path = shortener, public;
SELECT plan(45);

SELECT create_workspace('acme');
SELECT lives_ok($$ SELECT create_user('Ada@Example.com', 'Ada', 'admin', workspace => 'acme') $$, 'a user');
SELECT results_eq('SELECT email, name, role, status FROM workspace_user', $$ VALUES ('ada@example.com' COLLATE "C", 'Ada', 'admin', 'active') $$,
    'whose address is stored in lower case');
SELECT throws_ok($$ SELECT create_user('ADA@example.com', workspace => 'acme') $$, '23505', 'user "ADA@example.com" already exists', 'an address is unique');
SELECT lives_ok($$ SELECT create_user('ada@example.com') $$, 'in its workspace');
SELECT throws_ok(format('SELECT create_user(%L)', email), '22023', NULL, 'no address: ' || coalesce(left(email, 20), 'NULL'))
    FROM (VALUES (NULL), (''), ('ada'), ('a b@example.com'), ('a@b@c'), (repeat('a', 320) || '@example.com')) e (email);
SELECT throws_ok($$ SELECT create_user(repeat('a', 300000000)) $$, '22023', NULL, 'no address, however long');
SELECT throws_ok($$ SELECT create_user('x@example.com', role => 'king') $$, '22023', '"king" is not a valid role of a user', 'an unknown role');
SELECT throws_ok($$ SELECT create_user('x@example.com', workspace => 'nobody') $$, '42704', NULL, 'an unknown workspace');

-- From an identity provider
SELECT sync_user('idp|1', 'grace@example.com', 'Grace', workspace => 'acme') AS grace \gset
SELECT is(sync_user('idp|1', 'hopper@example.com', role => 'viewer', workspace => 'acme'), :grace::bigint, 'the same subject is the same user');
SELECT results_eq(format('SELECT email, name, role, last_sync_at = now() FROM workspace_user WHERE workspace_id = 2 AND id = %s', :grace),
    $$ VALUES ('hopper@example.com' COLLATE "C", 'Grace', 'viewer', true) $$, 'refreshed');
SELECT throws_ok($$ SELECT sync_user('idp|2', 'hopper@example.com', workspace => 'acme') $$, '23505', NULL, 'not by another''s address');
SELECT throws_ok($$ SELECT sync_user('', 'x@example.com') $$, '22023', NULL, 'a subject has a name');

-- Passwords
SELECT throws_ok($$ SELECT set_password('ada@example.com', 'secret', 'acme') $$, '55000', 'passwords need extension pgcrypto', 'without pgcrypto');
CREATE SCHEMA elsewhere;
CREATE FUNCTION public.crypt(text, text) RETURNS text LANGUAGE sql AS $$ SELECT 'forged' $$;
CREATE FUNCTION elsewhere.gen_salt(text, text) RETURNS text LANGUAGE sql AS $$ SELECT 'forged' $$;
CREATE EXTENSION pgcrypto SCHEMA elsewhere;
SELECT lives_ok($$ SELECT set_password('ada@example.com', 'secret', 'acme') $$, 'with it, wherever it is');
SELECT matches((SELECT hash FROM user_password), '^\$2a\$10\$', 'bcrypt');
SELECT is(verify_password('ADA@example.com', 'secret', 'acme'), true, 'the password');
SELECT is((SELECT last_login_at FROM workspace_user WHERE name = 'Ada'), now(), 'a login');
SELECT is(verify_password('ada@example.com', password, 'acme'), false, 'no password: ' || coalesce(password, 'NULL'))
    FROM (VALUES ('Secret'), ('secret '), (''), (NULL)) p (password);
SELECT is(verify_password('ada@example.com', 'secret'), false, 'the user of that address in another workspace has none');
SELECT is(verify_password('nobody@example.com', 'secret', 'acme'), false, 'an unknown user');
SELECT throws_ok(format('SELECT set_password(%L, %L)', 'ada@example.com', password), '28P01', NULL, 'a password of a length that bcrypt has not')
    FROM unnest(ARRAY['', repeat('x', 73)]) password;
SELECT set_password('ada@example.com', repeat('x', 72), 'acme');
SELECT is(verify_password('ada@example.com', repeat('x', 72), 'acme'), true, 'the longest password');
SELECT is(verify_password('ada@example.com', repeat('x', 73), 'acme'), false, 'of which bcrypt would not see what follows');
SELECT set_password('ada@example.com', 'secret', 'acme');
SELECT set_user_status('ada@example.com', 'suspended', 'acme');
SELECT is(verify_password('ada@example.com', 'secret', 'acme'), false, 'a suspended user');
SELECT set_user_status('ada@example.com', 'active', 'acme');
SELECT set_password('ada@example.com', NULL, 'acme');
SELECT is_empty('SELECT FROM user_password', 'a password can be taken away');
SELECT throws_ok($$ SELECT set_user_status('ada@example.com', 'dead', 'acme') $$, '22023', NULL, 'an unknown status');

-- The end of a user
SELECT create_api_key('hers', '{admin}', user_email => 'ada@example.com', workspace => 'acme') AS key,
       create_api_key('writes', workspace => 'acme') AS writes \gset
SAVEPOINT weak;
SELECT authenticate(:'writes');
SELECT throws_ok($$ SELECT verify_password('ada@example.com', 'secret') $$, '42501', format('API key "%s" does not have scope admin', left(:'writes', 11)), 'a key that is no admin''s tries no passwords');
SELECT throws_ok($$ SELECT delete_user('ada@example.com', 'delete') $$, '42501', NULL, '... and deletes no users');
ROLLBACK TO weak;
SELECT authenticate(:'key');
SELECT short_code AS code FROM create_link('https://example.com/') \gset
SELECT shorten('https://example.com/short') AS short, short_code AS many FROM shorten_many('{https://example.com/many}') \gset
SELECT throws_ok($$ SELECT delete_user('ada@example.com', 'burn') $$, '22023', NULL, 'links are kept, disabled or deleted');
SAVEPOINT there;
SELECT results_eq($$ SELECT api_keys_removed, links_kept, links_disabled, links_deleted FROM delete_user('ada@example.com') $$,
    'VALUES (1::bigint, 3::bigint, 0::bigint, 0::bigint)', 'delete_user keeps links');
SELECT is((SELECT count(*) FROM link WHERE is_active AND deleted_at IS NULL), 3::bigint, '... all of them');
ROLLBACK TO there;
SELECT results_eq($$ SELECT api_keys_removed, links_kept, links_disabled, links_deleted FROM delete_user('ada@example.com', 'delete') $$,
    'VALUES (1::bigint, 0::bigint, 0::bigint, 3::bigint)', '... or deletes them');
SELECT is((SELECT count(*) FROM link WHERE deleted_at IS NULL), 0::bigint, '... those of shorten and shorten_many too');
ROLLBACK TO there;
SELECT results_eq($$ SELECT api_keys_removed, links_kept, links_disabled, links_deleted FROM delete_user('ada@example.com', 'disable') $$,
    'VALUES (1::bigint, 0::bigint, 3::bigint, 0::bigint)', 'delete_user says what it did');
SELECT is((SELECT http_status FROM (SELECT set_config('shortener.default_workspace', 'acme', true)) s, resolve(:'code')), 410, 'the link is disabled');
SELECT is_empty($$ SELECT FROM workspace_user WHERE workspace_id = 2 AND (email ~ 'ada' OR name ~ 'Ada') $$, 'name and address are gone');

SELECT * FROM finish();
ROLLBACK;
