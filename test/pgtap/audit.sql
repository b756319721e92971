BEGIN;
CREATE EXTENSION shortener CASCADE;
CALL shortener.install();
SET LOCAL search_path = shortener, public;
SELECT plan(56);

SELECT has_function('audit_link');
SELECT is((SELECT count(*) FROM pg_trigger WHERE tgfoid = 'audit_link'::regproc), 0::bigint, 'the audit is off');
SELECT shorten('https://example.com/before') AS before \gset
SELECT is((SELECT count(*) FROM link_audit), 0::bigint, 'nothing is written');
SELECT is(enable_audit(), true, 'on');
SELECT is(enable_audit(), false, 'once');
SELECT is((SELECT count(*) FROM month_partitions('link_audit')), 4::bigint, 'partitions of this month and of three to come');

-- What is written
SELECT create_link('https://example.com/', alias => 'sale', title => 'Sale', metadata => '{"a": {"b": null}}') \gset
SELECT results_eq($$ SELECT workspace_id, action, short_code, changed_at, session_role, changing_role, user_id, api_key FROM link_audit $$,
    $$ VALUES (1, 'insert' COLLATE "C", 'sale' COLLATE "C", now(), session_user, current_user, NULL::bigint, NULL::text COLLATE "C") $$, 'who made a link');
SELECT is((SELECT link_id FROM link_audit), (SELECT id FROM link WHERE short_code = 'sale'), 'which one');
SELECT is((SELECT old_values FROM link_audit), NULL, 'nothing was before');
SELECT is((SELECT new_values - '{id,created_at,created_by}'::text[] FROM link_audit),
    '{"title": "Sale", "metadata": {"a": {"b": null}}, "is_active": true, "short_code": "sale", "original_url": "https://example.com/", "workspace_id": 1, "redirect_status": 302}'::jsonb,
    'what is not null');

CREATE FUNCTION pg_temp.last(OUT action text, OUT old_values jsonb, OUT new_values jsonb) LANGUAGE sql
    AS $$ SELECT a.action, a.old_values, a.new_values FROM shortener.link_audit a ORDER BY a.number DESC LIMIT 1 $$;
UPDATE link SET original_url = 'https://example.com/2', title = NULL, metadata = '{"a": {"b": null}}' WHERE short_code = 'sale';
SELECT results_eq('SELECT * FROM pg_temp.last()',
    $$ VALUES ('update', '{"title": "Sale", "original_url": "https://example.com/"}'::jsonb, '{"title": null, "original_url": "https://example.com/2"}'::jsonb) $$,
    'what an update changed, and nothing else');
UPDATE link SET title = title;
SELECT is((SELECT count(*) FROM link_audit), 2::bigint, 'no entry for what stays as it is');
SELECT disable_link('sale') \gset
SELECT results_eq('SELECT * FROM pg_temp.last()', $$ VALUES ('update', '{"is_active": true}'::jsonb, '{"is_active": false}'::jsonb) $$, 'functions are audited, too');
SELECT shorten('https://example.com/before') AS again \gset
SELECT is((SELECT count(*) FROM link_audit), 3::bigint, 'what exists is not made again');
DELETE FROM link WHERE short_code = 'sale';
SELECT results_eq($$ SELECT action, old_values ->> 'original_url', new_values FROM pg_temp.last() $$,
    $$ VALUES ('delete', 'https://example.com/2', NULL::jsonb) $$, 'what a removed link was');
SELECT is((SELECT count(*) FROM link_audit WHERE short_code = 'sale'), 4::bigint, 'entries outlive the link');
SELECT count(*) FROM shorten_many((SELECT array_agg('https://many.example/' || i) FROM generate_series(1, 2500) i)) \gset
SELECT is((SELECT count(DISTINCT link_id) FROM link_audit WHERE action = 'insert' AND new_values ->> 'original_url' LIKE 'https://many%'), 2500::bigint, 'more than a batch');
UPDATE link SET is_active = id % 2 = 0 WHERE original_url LIKE 'https://many%';
SELECT is((SELECT count(*) FROM link_audit a JOIN link l ON l.workspace_id = a.workspace_id AND l.id = a.link_id
           WHERE a.action = 'update' AND l.id % 2 = 1 AND a.new_values = '{"is_active": false}'), 1250::bigint, 'each with its own values');
DELETE FROM link_audit;
INSERT INTO link (workspace_id, short_code, original_url, redirect_status) VALUES (1, 'merged', 'https://example.com/', 302)
    ON CONFLICT ON CONSTRAINT link_short_code DO UPDATE SET title = 'x';
INSERT INTO link (workspace_id, short_code, original_url, redirect_status) VALUES (1, 'merged', 'https://example.com/', 302)
    ON CONFLICT ON CONSTRAINT link_short_code DO UPDATE SET title = 'x';
SELECT results_eq('SELECT action FROM link_audit ORDER BY number', $$ VALUES ('insert' COLLATE "C"), ('update') $$, 'ON CONFLICT');
SAVEPOINT other_ways;
DELETE FROM link_audit;
COPY link (workspace_id, short_code, original_url, redirect_status) FROM STDIN;
1	copied-1	https://example.com/	302
1	copied-2	https://example.com/	302
\.
SELECT results_eq('SELECT action, short_code FROM link_audit ORDER BY number', $$ VALUES ('insert' COLLATE "C", 'copied-1' COLLATE "C"), ('insert', 'copied-2') $$, 'COPY');
MERGE INTO link l USING (VALUES ('copied-1'), ('copied-2'), ('copied-3')) n (code) ON l.workspace_id = 1 AND l.short_code = n.code
    WHEN MATCHED AND n.code = 'copied-1' THEN DELETE
    WHEN MATCHED THEN UPDATE SET title = 'merged'
    WHEN NOT MATCHED THEN INSERT (workspace_id, short_code, original_url, redirect_status) VALUES (1, n.code, 'https://example.com/', 302);
SELECT set_eq('SELECT action, short_code FROM (SELECT * FROM link_audit ORDER BY number OFFSET 2) a',
    $$ VALUES ('delete' COLLATE "C", 'copied-1' COLLATE "C"), ('update', 'copied-2'), ('insert', 'copied-3') $$, 'MERGE');
WITH gone AS (DELETE FROM link WHERE short_code = 'copied-2') UPDATE link SET title = 'y' WHERE short_code = 'copied-3';
SELECT set_eq('SELECT action, short_code FROM (SELECT * FROM link_audit ORDER BY number OFFSET 5) a',
    $$ VALUES ('delete' COLLATE "C", 'copied-2' COLLATE "C"), ('update', 'copied-3') $$, 'WITH');
ROLLBACK TO other_ways;
SAVEPOINT refused;
SELECT throws_ok($$ UPDATE link SET short_code = 'other' WHERE short_code = 'merged' $$, '23000', NULL, 'a change that is refused');
SELECT is((SELECT count(*) FROM link_audit), 2::bigint, 'is not written');
SAVEPOINT elsewhere;
SET LOCAL timezone = 'Asia/Tokyo';
SET LOCAL bytea_output = 'escape';
UPDATE link SET title = 'y' WHERE short_code = 'merged';
SELECT is((SELECT new_values FROM pg_temp.last()), '{"title": "y"}'::jsonb, 'settings make no difference');
ROLLBACK TO elsewhere;

-- Tenants
SELECT create_workspace('acme');
CREATE ROLE audit_writer;
CREATE ROLE audit_admin;
CREATE ROLE audit_beta;
SELECT grant_access('audit_writer', 'writer', 'acme'), grant_access('audit_admin', 'admin', 'acme'), grant_access('audit_beta', 'admin');
GRANT USAGE ON SCHEMA public TO audit_writer, audit_admin, audit_beta;
DO $$ BEGIN -- where pgTAP keeps its plan
    EXECUTE 'GRANT ALL ON ALL TABLES IN SCHEMA ' || pg_my_temp_schema()::regnamespace || ' TO audit_writer, audit_admin, audit_beta';
    EXECUTE 'GRANT ALL ON ALL SEQUENCES IN SCHEMA ' || pg_my_temp_schema()::regnamespace || ' TO audit_writer, audit_admin, audit_beta';
END $$;
SELECT create_user('ann@acme.example', workspace => 'acme') AS ann \gset
SELECT create_api_key('a', scopes => '{admin}', user_email => 'ann@acme.example', workspace => 'acme') AS key \gset
SET LOCAL ROLE audit_writer;
SELECT throws_ok('SELECT FROM link_audit', '42501', NULL, 'a writer does not see the audit');
SELECT lives_ok($$ SELECT create_link('https://example.com/', alias => 'theirs') $$, 'and writes it');
SELECT throws_ok($$ INSERT INTO link_audit (workspace_id, link_id, action, short_code, session_role, changing_role) VALUES (2, 1, 'insert', 'x', 'y', 'y') $$,
    '42501', NULL, 'through a change of a link alone');
SELECT throws_ok('SELECT enable_audit()', '42501', NULL, 'nor does it turn it on');
SELECT throws_ok('SELECT disable_audit()', '42501', NULL, 'or off');
SELECT throws_ok('CALL maintain_audit()', '42501', NULL, 'or drops it');
SELECT length(authenticate(:'key')) \gset
SELECT lives_ok($$ SELECT disable_link('theirs') $$, 'with an API key');
SET LOCAL ROLE audit_admin;
SELECT results_eq('SELECT action, changing_role, session_role = session_user, user_id IS NOT NULL, api_key FROM link_audit ORDER BY number',
    format($$ VALUES ('insert' COLLATE "C", 'audit_writer'::name, true, false, NULL), ('update', 'audit_writer', true, true, %L COLLATE "C") $$, left(:'key', 11)),
    'an admin sees the role, the user and the display prefix of the key');
SELECT throws_ok(format('%s link_audit %s', command, rest), '42501', NULL, command || ' by an admin') FROM (VALUES
    ('UPDATE', 'SET user_id = 0'), ('DELETE FROM', ''), ('TRUNCATE', ''), ('ALTER TABLE', 'DISABLE ROW LEVEL SECURITY')) c (command, rest);
RESET ROLE;
SAVEPOINT granted; -- even with the privilege
GRANT ALL ON link_audit TO audit_admin;
SET LOCAL ROLE audit_admin;
UPDATE link_audit SET user_id = 0;
DELETE FROM link_audit;
SELECT is((SELECT count(*) FROM link_audit WHERE user_id IS DISTINCT FROM 0), 2::bigint, 'row-level security permits no change');
ROLLBACK TO granted;

-- What would run with the rights of the owner
RESET ROLE;
SELECT partition FROM month_partitions('link_audit') LIMIT 1 \gset
CREATE ROLE audit_thief;
GRANT USAGE, CREATE ON SCHEMA public TO audit_thief;
SET LOCAL ROLE audit_thief;
CREATE FUNCTION public.audit_theft() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'reached' USING ERRCODE = 'XX999'; END $$;
RESET ROLE;
SAVEPOINT thief;
SELECT format('CREATE TRIGGER t BEFORE INSERT ON %I FOR EACH ROW EXECUTE FUNCTION public.audit_theft()', :'partition') \gexec
SELECT throws_ok($$ UPDATE link SET title = 'z' WHERE short_code = 'merged' $$, '42501', format('table "shortener.%s" must not have trigger "t"', :'partition'), 'a trigger of a partition');
ROLLBACK TO thief;
SELECT format('ALTER TABLE %I OWNER TO audit_thief', :'partition') \gexec
SELECT throws_ok($$ UPDATE link SET title = 'z' WHERE short_code = 'merged' $$, '42501', NULL, 'a partition of another role');
ROLLBACK TO thief;
CREATE TABLE public.bait (LIKE link);
CREATE TRIGGER audit_link_insert AFTER INSERT ON public.bait REFERENCING NEW TABLE AS new_link FOR EACH STATEMENT EXECUTE FUNCTION audit_link();
SELECT throws_ok($$ INSERT INTO public.bait SELECT * FROM link $$, '39P01', NULL, 'the trigger on another table');
ROLLBACK TO thief;
CREATE TRIGGER forged AFTER UPDATE ON link REFERENCING NEW TABLE AS new_link FOR EACH STATEMENT EXECUTE FUNCTION audit_link();
SELECT throws_ok($$ UPDATE link SET title = 'z' WHERE short_code = 'merged' $$, '39P01', NULL, 'the trigger without what it reads');
ROLLBACK TO thief;
SELECT throws_ok('SELECT audit_link()', '39P01', NULL, 'the trigger as a function');

-- Upkeep
SELECT make_month_partition('link_audit', (date_trunc('month', now()) - '14 months'::interval)::date);
SELECT make_month_partition('link_audit', (date_trunc('month', now()) - '12 months'::interval)::date);
CALL maintain_audit();
SELECT is((SELECT count(*) FROM month_partitions('link_audit')), 5::bigint, 'what is older than a year is dropped');
CALL maintain_audit(ahead => '5 months');
SELECT is((SELECT count(*) FROM month_partitions('link_audit')), 7::bigint, 'partitions are made ahead');
SELECT is(enable_audit(keep => '2 months'), false, 'on already');
CALL maintain_audit();
SELECT is((SELECT count(*) FROM month_partitions('link_audit')), 6::bigint, 'another time to keep entries');
SELECT throws_ok('CALL maintain_audit(ahead => NULL)', '22004', NULL, 'a NULL');
SELECT throws_ok($$ SELECT enable_audit(keep => '1 hour') $$, '22023', NULL, 'too short');
SELECT is((SELECT command FROM job_definitions() WHERE job = 'maintain audit'), 'CALL shortener.maintain_audit()', 'a job');
SAVEPOINT partitions;
DO $$ DECLARE p name; BEGIN FOR p IN SELECT partition FROM month_partitions('link_audit') LOOP EXECUTE format('DROP TABLE shortener.%I', p); END LOOP; END $$;
SELECT throws_ok($$ UPDATE link SET title = 'z' WHERE short_code = 'merged' $$, '23514', NULL, 'no change without an entry');
ROLLBACK TO partitions;

-- Without the extension for a while
SELECT disable_audit(), enable_audit();
DROP EXTENSION shortener CASCADE;
CREATE EXTENSION shortener;
SELECT is((SELECT count(*) FROM pg_trigger WHERE tgfoid = 'audit_link'::regproc), 3::bigint, 'a new extension goes on with the audit');
SELECT is(disable_audit(), true, 'off');
SELECT is(disable_audit(), false, 'once');
CALL install();
UPDATE link SET title = 'w' WHERE short_code = 'merged';
SELECT is((SELECT count(*) FROM link_audit WHERE new_values ->> 'title' = 'w'), 0::bigint, 'nothing is written');
SELECT cmp_ok((SELECT count(*) FROM link_audit), '>', 0::bigint, 'what was written stays');

SELECT * FROM finish();
ROLLBACK;
