BEGIN;
CREATE EXTENSION shortener CASCADE;
CALL shortener.install();
SET LOCAL search_path = shortener, public;
SELECT plan(29);

SELECT create_workspace('other');
SELECT add_domain('other.example', 'other');
CREATE TEMP TABLE ids AS SELECT max(id) FILTER (WHERE slug = 'default') AS mine, max(id) FILTER (WHERE slug = 'other') AS other FROM workspace;
INSERT INTO link (workspace_id, short_code, original_url, redirect_status, expires_at, is_active, deleted_at)
    SELECT CASE WHEN code = 'there' THEN other ELSE mine END, code, 'https://example.com/' || code, status, expires, active, deleted
    FROM ids, (VALUES ('plain', 302, NULL::timestamptz, true, NULL::timestamptz), ('moved', 301, NULL, true, NULL),
        ('soon', 307, now() + '1 hour', true, NULL), ('sooner', 308, clock_timestamp() + '100 seconds', true, NULL),
        ('late', 302, now() - '1 second'::interval, true, NULL), ('off', 302, NULL, false, NULL),
        ('deleted', 302, NULL, true, now()), ('removed', 302, NULL, true, NULL), ('there', 302, NULL, true, NULL)) v (code, status, expires, active, deleted);
DELETE FROM link WHERE short_code = 'removed';

SELECT results_eq($$ SELECT http_status, location, cache_seconds, link_id, workspace_id, expires_at FROM resolve('plain') $$,
    $$ SELECT 302, 'https://example.com/plain', 300, id, workspace_id::bigint, NULL::timestamptz FROM link WHERE short_code = 'plain' $$, 'an active link');
SELECT is((SELECT http_status FROM resolve('moved')), 301, 'its own status');
SELECT is((SELECT cache_seconds FROM resolve('soon')), 300, 'kept for at most five minutes');
SELECT ok((SELECT cache_seconds BETWEEN 40 AND 100 FROM resolve('sooner')), 'and not beyond the expiry');
SELECT is((SELECT expires_at FROM resolve('soon')), now() + '1 hour', 'with its expiry');
SELECT results_eq($$ SELECT http_status, location, cache_seconds, link_id, workspace_id FROM resolve('nothing') $$,
    $$ SELECT 404, NULL::text, 60, NULL::bigint, mine::bigint FROM ids $$, 'unknown: 404 with the workspace');
SELECT results_eq($$ SELECT http_status, location, cache_seconds FROM resolve('late') $$, $$ VALUES (410, NULL::text, 3600) $$, 'expired: 410');
SELECT is((SELECT http_status FROM resolve('off')), 410, 'disabled: 410');
SELECT is((SELECT http_status FROM resolve('deleted')), 410, 'deleted: 410');
SELECT is((SELECT http_status FROM resolve('removed')), 410, 'retired: 410');
SELECT is((SELECT http_status FROM resolve('Plain')), 404, 'codes have case');
SELECT is((SELECT http_status FROM resolve('')), 404, 'an empty code');
SELECT is((SELECT http_status FROM resolve(NULL)), 404, 'no code');
SELECT is((SELECT http_status FROM resolve(repeat('x', 100000))), 404, 'a huge code');

SELECT is((SELECT http_status FROM resolve('there')), 404, 'another workspace''s code');
SELECT is((SELECT http_status FROM resolve('there', 'OTHER.example.:80')), 302, 'is found at its host');
SELECT is((SELECT http_status FROM resolve('plain', 'other.example')), 404, 'where ours is not');
SELECT is((SELECT http_status FROM resolve('plain', 'unknown.example')), 302, 'an unknown host serves the default workspace');
SET LOCAL shortener.default_workspace = 'other';
SELECT is((SELECT http_status FROM resolve('there')), 302, 'which is a setting');
SET LOCAL shortener.default_workspace = 'none';
SELECT results_eq($$ SELECT http_status, workspace_id FROM resolve('there') $$, $$ VALUES (404, NULL::bigint) $$, 'and may be nobody');
RESET shortener.default_workspace;

SELECT results_eq($$ SELECT http_status, workspace_id FROM resolve_many('{plain,there,there,nothing,NULL,plain}', '{NULL,other.example,x}') $$,
    $$ SELECT status, CASE WHEN at_other THEN other ELSE mine END::bigint FROM ids,
       (VALUES (302, false), (302, true), (404, false), (404, false), (404, false), (302, false)) v (status, at_other) $$,
    'many: one row for each, in order, each at its host');
SELECT results_eq($$ SELECT http_status FROM resolve_many('[5:6]={there,plain}', '[0:1]={other.example,NULL}') $$, '{302,302}'::integer[],
    'arrays that do not start at 1 are paired by position');
SELECT results_eq($$ SELECT http_status FROM resolve_many('[5:6]={there,plain}', '[5:6]={other.example,other.example}') $$, '{302,404}'::integer[], 'both of them');
SELECT results_eq($$ SELECT http_status FROM resolve_many('{{there,there},{plain,plain}}', '{{other.example},{NULL},{NULL},{other.example}}') $$,
    '{302,404,302,404}'::integer[], 'those of more dimensions are read row by row');
SELECT results_eq($$ SELECT http_status FROM resolve_many('{plain}', '{NULL,other.example}') $$, '{302}'::integer[], 'no row for a host without a code');
SELECT is_empty($$ SELECT * FROM resolve_many(NULL, '{other.example}') $$, 'no codes, no rows');
SELECT is_empty($$ SELECT * FROM resolve_many('{}') $$, 'nothing asked, nothing said');

-- A role that sees no more than this of links, and nothing of workspaces, domains and retired codes.
CREATE ROLE shortener_test_redirector;
GRANT USAGE ON SCHEMA public TO shortener_test_redirector;
SELECT grant_access('shortener_test_redirector', 'redirector');
REVOKE SELECT ON workspace, domain FROM shortener_test_redirector;
SET LOCAL ROLE shortener_test_redirector;
SELECT results_eq($$ SELECT http_status FROM resolve_many('{plain,there,removed,nothing}', '{NULL,other.example}') $$, '{302,302,410,404}'::integer[],
    'a role needs no other right');
RESET ROLE;

SET LOCAL transaction_read_only = on;
SELECT is((SELECT http_status FROM resolve('plain')), 302, 'in a read-only transaction');

SELECT * FROM finish();
ROLLBACK;
