BEGIN;
CREATE EXTENSION shortener CASCADE;
CALL shortener.install();
SET LOCAL search_path = shortener, public;
SELECT plan(38);

SELECT create_workspace('acme');
SELECT create_user('ada@example.com', workspace => 'acme');
SELECT create_api_key('first', workspace => 'acme') AS key \gset
SELECT matches(:'key'::text, '^sk_[0-9A-Za-z]{43}$', 'a key');
SELECT isnt(random_api_key(), random_api_key(), 'never the same');
SELECT is((SELECT digest FROM api_key), sha256(convert_to(:'key', 'UTF8')), 'stored as its SHA-256');
SELECT results_eq('SELECT prefix, name, scopes, rate_limit FROM api_keys',
    format($$ VALUES (%L COLLATE "C", 'first', '{links:read,links:write}'::text[], 1000) $$, left(:'key', 11)), 'with its defaults');
SELECT is_empty($$ SELECT attname FROM pg_attribute WHERE attrelid = 'api_keys'::regclass AND attname = 'digest' $$, 'the view has no digest');

SELECT throws_ok($$ SELECT create_api_key('x', '{}') $$, '22023', NULL, 'no scope');
SELECT throws_ok($$ SELECT create_api_key('x', '{links:delete}') $$, '22023', NULL, 'an unknown scope');
SELECT throws_ok($$ SELECT create_api_key('x', '{admin,NULL}') $$, '22023', NULL, 'a NULL scope');
SELECT throws_ok($$ SELECT create_api_key('x', NULL) $$, '22023', NULL, 'NULL for scopes');
SELECT throws_ok($$ SELECT create_api_key('x', expires_at => now()) $$, '22023', NULL, 'an expiry in the past');
SELECT throws_ok($$ SELECT create_api_key('x', rate_limit => 0) $$, '22023', 'rate_limit must be positive', 'no use at all');
SELECT throws_ok($$ SELECT create_api_key('x', workspace => 'nobody') $$, '42704', NULL, 'an unknown workspace');
SELECT throws_ok($$ SELECT create_api_key('x', user_email => 'ada@example.com') $$, '42704', NULL, 'a user of another workspace');

-- Uses
SELECT results_eq('SELECT last_used_at, usage_count FROM api_keys', $$ VALUES (NULL::timestamptz, 0::bigint) $$, 'not used yet');
SELECT create_api_key('boss', '{admin}', workspace => 'acme') AS boss \gset
SELECT create_api_key('twice', rate_limit => 2, workspace => 'acme') AS twice \gset
SELECT lives_ok(format('SELECT authenticate(%L)', :'twice'), 'once');
SAVEPOINT before;
SELECT lives_ok(format('SELECT authenticate(%L)', :'twice'), 'twice');
ROLLBACK TO before;
SELECT throws_ok(format('SELECT authenticate(%L)', :'twice'), 'SK429',
    format('API key "%s" has reached its limit of 2 uses per hour; try again in 3600 seconds', left(:'twice', 11)),
    'and no more, though the second was rolled back');
SELECT results_eq($$ SELECT usage_count, last_used_at > now() FROM api_keys WHERE name = 'twice' $$, 'VALUES (2::bigint, true)', 'both are counted');
UPDATE api_key_use SET window_started_at = now() - interval '1 hour' WHERE window_uses = 2;
SELECT lives_ok(format('SELECT authenticate(%L)', :'twice'), 'an hour later it can be used again');
SELECT is((SELECT window_uses FROM api_key_use WHERE uses = 3), 1, 'in a new window');
UPDATE api_key_use SET window_started_at = clock_timestamp() + interval '1 minute', window_uses = 2 WHERE uses = 3;
SELECT throws_ok(format('SELECT authenticate(%L)', :'twice'), 'SK429', NULL, 'whose clock was ahead begins no other window');
UPDATE api_key_use SET window_started_at = clock_timestamp() + interval '1 day' WHERE uses = 3;
SELECT lives_ok(format('SELECT authenticate(%L)', :'twice'), '... unless that was long ago by its own account');
UPDATE api_key_use SET window_started_at = 'infinity', window_uses = 2 WHERE uses = 4;
SELECT lives_ok(format('SELECT authenticate(%L)', :'twice'), '... or for ever');
SELECT create_api_key('unlimited', rate_limit => NULL, workspace => 'acme') AS unlimited \gset
SELECT is((SELECT count(authenticate(:'unlimited')) FROM generate_series(1, 1100)), 1100::bigint, 'a key without limit');
SELECT authenticate(:'unlimited');
SELECT throws_ok($$ SELECT create_api_key('x', '{admin}') $$, '42501', NULL, 'a key makes none with more scopes');
SELECT throws_ok(format('SELECT revoke_api_key(%L)', left(:'unlimited', 11)), '42501', NULL, '... and does not revoke one');

SELECT authenticate(:'boss');

-- The end of a key
SELECT is(revoke_api_key(left(:'unlimited', 11)), true, 'revoked');
SELECT is(revoke_api_key(left(:'unlimited', 11)), false, 'once');
SELECT throws_ok(format('SELECT authenticate(%L)', :'unlimited'), '28000', format('API key "%s" has been revoked', left(:'unlimited', 11)), 'revoked is refused');
UPDATE api_key SET expires_at = now() - interval '29 days' WHERE name = 'twice';
SELECT throws_ok(format('SELECT authenticate(%L)', :'twice'), '28000', format('API key "%s" has expired', left(:'twice', 11)), 'expired is refused');
SELECT is(remove_expired_api_keys(), 0::bigint, 'and kept for 30 days');
UPDATE api_key SET expires_at = now() - interval '31 days' WHERE name = 'twice';
SELECT is(remove_expired_api_keys(), 1::bigint, 'not longer');
SELECT create_api_key('hers', user_email => 'ADA@example.com', workspace => 'acme') AS hers \gset
SELECT authenticate(:'hers');
SELECT is(current_user_id(), (SELECT id FROM workspace_user), 'the user of a key');
SELECT short_code AS code FROM create_link('https://example.com/') \gset
SELECT is((SELECT created_by FROM get_link(:'code')), 'user:' || current_user_id(), 'who made the link');
SELECT shorten('https://example.com/short') AS short, short_code AS many FROM shorten_many('{https://example.com/many}') \gset
SELECT results_eq(format('SELECT created_by FROM link WHERE short_code IN (%L, %L)', :'short', :'many'),
    'SELECT ''user:'' || current_user_id() FROM generate_series(1, 2)', 'also by shorten and shorten_many');
SELECT authenticate(:'boss');
SELECT set_user_status('ada@example.com', 'suspended', 'acme');
SELECT throws_ok(format('SELECT authenticate(%L)', :'hers'), '28000', NULL, 'a suspended user');
SELECT delete_workspace('acme');
SELECT throws_ok(format('SELECT authenticate(%L)', :'key'), '28000', NULL, 'a deleted workspace');
DELETE FROM api_key_use WHERE uses = 0;
SELECT restore_workspace('acme');
SELECT throws_ok(format('SELECT authenticate(%L)', :'key'), '28000', NULL, 'a key whose uses cannot be counted');

SELECT * FROM finish();
ROLLBACK;
