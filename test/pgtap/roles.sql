-- Every table, view and function has a decision about who may use it: a new one without fails here.
BEGIN;
CREATE EXTENSION shortener CASCADE;
CREATE EXTENSION pgcrypto;
CALL shortener.install();
SELECT shortener.enable_audit();
SET LOCAL search_path = shortener, public;
SELECT * FROM no_plan();

CREATE ROLE shortener_test_redirector;
CREATE ROLE shortener_test_writer;
CREATE ROLE shortener_test_analyst;
CREATE ROLE shortener_test_admin;
CREATE TEMP TABLE capability (name text, role name);
INSERT INTO capability SELECT name, 'shortener_test_' || name FROM unnest('{redirector,writer,analyst,admin}'::text[]) name;
GRANT SELECT ON capability TO PUBLIC;

-- What a query returns, or the SQLSTATE of its error.
CREATE FUNCTION public.shortener_test_attempt(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    result text;
BEGIN
    EXECUTE query INTO result;
    RETURN result;
EXCEPTION WHEN OTHERS THEN
    RETURN SQLSTATE;
END $$;

-- The plan of a query.
CREATE FUNCTION public.shortener_test_plan(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    line text;
    result text := '';
BEGIN
    FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
        result := result || line || E'\n';
    END LOOP;
    RETURN result;
END $$;

-- Decisions about relations
CREATE TEMP TABLE owner_only (name name);
INSERT INTO owner_only VALUES ('installation'), ('workspace_key'), ('blocked_host'), ('role_workspace'), ('role_access'),
    ('cleanup_run'), ('cleanup_total'), ('cleanup_stats'), ('scheduled_jobs'), ('workspace_id_seq'), ('cleanup_run_id_seq'), ('workspace_user_id_seq'), ('api_key_id_seq'),
    ('click_salt'), ('click_rollup'), ('click_stats'), ('click_pending'), ('click_pending_number_seq'), ('link_audit_number_seq'), ('user_agent_id_seq'), ('referrer_id_seq'), ('place_id_seq'), ('link_audit_number_seq');
SELECT set_eq($$ SELECT relname FROM pg_class WHERE relnamespace = 'shortener'::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'S') AND NOT relispartition $$,
    $$ SELECT name FROM owner_only UNION SELECT object::name FROM access_rights() WHERE kind IN ('table', 'sequence') $$,
    'each table, view and sequence is granted to some capability or to none');
SELECT set_eq($$ SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'workspace_id' AND NOT a.attisdropped
                 WHERE c.relnamespace = 'shortener'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
                 UNION SELECT 'workspace' $$,
    'SELECT name::name FROM tenant_tables()', 'each table of tenants is in tenant_tables');
SELECT is_empty($$ SELECT t.name FROM tenant_tables() t LEFT JOIN pg_class c ON c.relname = t.name AND c.relnamespace = 'shortener'::regnamespace
                   WHERE c.relrowsecurity IS NOT TRUE OR c.relforcerowsecurity $$, '... and has row-level security');
SELECT is_empty($$ SELECT t.name, command FROM tenant_tables() t CROSS JOIN unnest('{r,a,w,d}'::"char"[]) command
                   WHERE CASE command WHEN 'r' THEN t.read_scope ELSE t.write_scope END IS NOT NULL AND NOT EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = ('shortener.' || t.name)::regclass
                       AND p.polcmd = command AND p.polname LIKE 'tenant%') $$, '... for each command');
SELECT is_empty($$ SELECT relname FROM pg_class WHERE relnamespace = 'shortener'::regnamespace AND relkind = 'v'
                   AND relname <> 'scheduled_jobs' AND NOT coalesce(reloptions @> '{security_invoker=true}', false) $$, 'a view has the rights of its reader');

-- Decisions about functions
SELECT is_empty($$ SELECT oid::regprocedure FROM pg_proc WHERE pronamespace = 'shortener'::regnamespace AND prosecdef $$, 'no function has the rights of its owner');
SELECT is_empty($$ SELECT r.object FROM access_rights() r WHERE r.kind = 'function'
                   AND NOT EXISTS (SELECT FROM pg_proc p WHERE p.pronamespace = 'shortener'::regnamespace AND p.proname = r.object) $$, 'granted functions exist');
SELECT is_empty($$ SELECT p.oid::regprocedure FROM pg_proc p JOIN access_rights() r ON r.kind = 'function' AND r.object = p.proname
                   WHERE p.pronamespace = 'shortener'::regnamespace AND (p.proacl IS NULL OR EXISTS (SELECT FROM aclexplode(p.proacl) a WHERE a.grantee = 0)) $$,
    '... and are not for PUBLIC');

-- What anybody may call reads no tables, or reads and writes them with the rights of the caller.
SELECT set_eq($$ SELECT DISTINCT p.proname FROM pg_proc p WHERE p.pronamespace = 'shortener'::regnamespace AND p.prorettype <> 'trigger'::regtype
                 AND (p.proacl IS NULL OR EXISTS (SELECT FROM aclexplode(p.proacl) a WHERE a.grantee = 0)) $$,
    $$ SELECT unnest('{access_rights,add_visitors,anonymize_ip,backend_start,base62_decode,base62_encode,can_commit,canonical_host,canonical_url,
        chart_number,chart_step,chart_style,chart_svg,check_max_rows,check_user,escape_html,geo_lookup,has_cron,host_from_header,is_url,job_definitions,job_name,
        list_jobs,merge_two_visitors,merge_visitors,month_partitions,normalize_url,parse_user_agent,raise_invalid,raise_invalid_workspace,random_api_key,random_key,
        report_style,report_table,require_install,require_no_transaction,require_owner,schema_version,snowflake_id,snowflake_node,snowflake_time,
        tenant_tables,url_parameter,visitor_count,visitor_counter_type,visitor_hash,visitor_key,
        current_api_key,current_scopes,current_user_id,current_workspace,current_workspace_id,permitted_workspace,require_scope,workspace_id,
        cache_seconds,live_status,missing_status,page_texts,resolve,resolve_installed,resolve_many,serving_workspace,
        create_link,delete_link,describe_links,disable_link,enable_link,get_link,link_tags,list_links,search_links,shorten,shorten_many,tag_link,
        untag_link,update_link,
        chart_of_clicks,click_breakdown,click_chart,click_report,click_series,report_breakdown,top_links,
        add_domain,block_host,create_workspace,reserve_code,set_page_texts}'::name[]) $$,
    'each function is for PUBLIC by a decision');

-- Bindings, before anybody authenticates
CREATE ROLE shortener_test_bound_writer;
CREATE ROLE shortener_test_bound_member IN ROLE shortener_test_bound_writer;
CREATE ROLE shortener_test_other;
SELECT create_workspace('one'), create_workspace('two');
SELECT grant_access('shortener_test_bound_writer', 'writer', 'one'), grant_access('shortener_test_other', 'writer', 'two');
SET LOCAL ROLE shortener_test_bound_writer;
SELECT is(current_workspace(), 'one', 'a bound role');
SELECT is(shorten('https://example.com/') IS NOT NULL, true, 'makes links there');
SELECT throws_ok($$ SELECT shorten('https://example.com/', 'default') $$, '42704', NULL, '... and nowhere else');
SELECT throws_ok($$ SELECT bind_role('shortener_test_bound_writer', 'two') $$, '42501', NULL, 'it cannot bind itself');
SET LOCAL ROLE shortener_test_bound_member;
SELECT is(current_workspace(), 'one', 'a member inherits it');
RESET ROLE;
GRANT shortener_test_other TO shortener_test_bound_member;
SET LOCAL ROLE shortener_test_bound_member;
SELECT is(current_workspace(), NULL, 'of two workspaces, none');
SELECT throws_ok($$ SELECT shorten('https://example.com/') $$, '42501', 'role "shortener_test_bound_member" has no workspace to work in', 'it has to authenticate');
RESET ROLE;
SELECT bind_role('shortener_test_bound_member', 'two');
SET LOCAL ROLE shortener_test_bound_member;
SELECT is(current_workspace(), 'two', 'its own binding counts');
RESET ROLE;
SELECT bind_role('shortener_test_bound_member', NULL);
SET LOCAL ROLE shortener_test_bound_member;
SELECT is(current_workspace(), NULL, 'to none');
SELECT is((SELECT count(*) FROM link), 0::bigint, 'sees none');
RESET ROLE;
SELECT is(unbind_role('shortener_test_bound_member'), true, 'unbound');
SELECT is(unbind_role('shortener_test_bound_member'), false, 'once');

-- revoke_access leaves what other capabilities need, and in the end nothing.
SELECT grant_access('shortener_test_bound_writer', 'analyst');
SELECT is(revoke_access('shortener_test_bound_writer', 'writer'), true, 'one capability is taken back');
SELECT is(has_table_privilege('shortener_test_bound_writer', 'link', 'SELECT'), true, '... the other one is left');
SELECT is(has_table_privilege('shortener_test_bound_writer', 'link', 'INSERT'), false, '... with no more than it needs');
SELECT grant_access('shortener_test_bound_writer', 'redirector');
SELECT is((SELECT polroles FROM pg_policy WHERE polrelid = 'link'::regclass AND polname = 'redirector'), ARRAY['shortener_test_bound_writer'::regrole::oid], 'a redirector has a policy');
SELECT is(revoke_access('shortener_test_bound_writer'), true, 'all is taken back');
SELECT is(revoke_access('shortener_test_bound_writer'), false, 'once');
SELECT lives_ok('DROP ROLE shortener_test_bound_writer', 'nothing depends on the role');

SELECT revoke_access('shortener_test_other');

-- Roles that are dropped without it are forgotten with the next change.
CREATE ROLE shortener_test_dropped;
SELECT is((SELECT count(*) FROM role_access) + (SELECT count(*) FROM role_workspace), 0::bigint, 'no role is left');
SELECT grant_access('shortener_test_dropped', 'writer', 'one');
DROP OWNED BY shortener_test_dropped;
DROP ROLE shortener_test_dropped;
SELECT isnt((SELECT count(*) FROM role_access) + (SELECT count(*) FROM role_workspace), 0::bigint, 'one that is dropped is');
SELECT bind_role('shortener_test_other', 'two'), unbind_role('shortener_test_other');
SELECT is((SELECT count(*) FROM role_access) + (SELECT count(*) FROM role_workspace), 0::bigint, '... until another changes');

-- What grant_access grants
SELECT throws_ok($$ SELECT grant_access('nobody_at_all', 'writer') $$, '42704', 'role "nobody_at_all" does not exist', 'an unknown role');
SELECT throws_ok($$ SELECT grant_access('shortener_test_writer', 'king') $$, '22023', '"king" is not a valid capability', 'an unknown capability');
SELECT throws_ok($$ SELECT grant_access('shortener_test_redirector', 'redirector', 'default') $$, '22023', NULL, 'a redirector of one workspace');
SELECT lives_ok($$ SELECT grant_access(role, name) FROM capability $$, 'each capability is granted');
SELECT lives_ok($$ SELECT grant_access(role, name) FROM capability $$, '... at will again');
CREATE VIEW pg_temp.granted AS
    SELECT a.grantee::regrole::name AS role, 'table' AS kind, c.relname::text AS object, a.privilege_type AS privilege, NULL::text AS "column"
    FROM pg_class c CROSS JOIN aclexplode(c.relacl) a WHERE c.relkind <> 'S'
    UNION ALL SELECT a.grantee::regrole::name, 'sequence', c.relname, a.privilege_type, NULL FROM pg_class c CROSS JOIN aclexplode(c.relacl) a WHERE c.relkind = 'S'
    UNION ALL SELECT a.grantee::regrole::name, 'table', c.relname, a.privilege_type, t.attname FROM pg_class c JOIN pg_attribute t ON t.attrelid = c.oid CROSS JOIN aclexplode(t.attacl) a
    UNION ALL SELECT a.grantee::regrole::name, 'function', p.proname, a.privilege_type, NULL FROM pg_proc p CROSS JOIN aclexplode(p.proacl) a
    UNION ALL SELECT a.grantee::regrole::name, 'schema', n.nspname, a.privilege_type, NULL FROM pg_namespace n CROSS JOIN aclexplode(n.nspacl) a;
SELECT set_eq($$ SELECT c.name, g.kind, g.object, g.privilege, g.column FROM pg_temp.granted g JOIN capability c ON c.role = g.role WHERE g.object <> 'capability' $$,
    $$ SELECT r.capability, r.kind, r.object, p, col FROM access_rights() r CROSS JOIN unnest(string_to_array(r.privileges, ', ')) p
       LEFT JOIN unnest(string_to_array(r.columns, ', ')) col ON true $$, 'exactly what access_rights has');

-- Two tenants. All that is beta's has the word in it.
SELECT create_workspace('acme'), create_workspace('betasecret', 'betasecret');
SELECT add_domain('go.betasecret.example', 'betasecret');
SELECT create_user('a@betasecret.example', 'betasecret', workspace => 'betasecret'), create_user('a@acme.example', workspace => 'acme');
SELECT set_password('a@betasecret.example', 'betasecret', 'betasecret');
SELECT create_link('https://betasecret.example/', 'betasecret', title => 'betasecret', workspace => 'betasecret'),
       create_link('https://gone.example/', 'betasecret-gone', workspace => 'betasecret'),
       create_link('https://acme.example/', 'mine', title => 'acme', workspace => 'acme');
SELECT tag_link('betasecret', 'betasecret', 'betasecret');
DELETE FROM link WHERE short_code = 'betasecret-gone';
SELECT record_clicks(gen_random_uuid(), ARRAY[id], ARRAY[now()], '{192.0.2.1}', '{betasecret}', '{https://betasecret.example/}') FROM link WHERE short_code = 'betasecret';
SELECT roll_up_clicks(100);
SELECT record_clicks(gen_random_uuid(), ARRAY[id], ARRAY[now()], '{192.0.2.1}', '{betasecret}', '{https://betasecret.example/}') FROM link WHERE short_code = 'betasecret';
SELECT record_unknown_codes(gen_random_uuid(), '{betasecret-unknown}', '{go.betasecret.example}');
INSERT INTO click_month (workspace_id, link_id, month, clicks, bots, visitors) SELECT workspace_id, link_id, day, clicks, bots, visitors FROM click_day;
INSERT INTO click_month_breakdown (workspace_id, link_id, month, dimension, value, clicks) SELECT workspace_id, link_id, day, dimension, value, clicks FROM click_day_breakdown;
INSERT INTO retired_number (workspace_id, highest, codes) VALUES (5, 1, 1);
INSERT INTO place (workspace_id, name, first_seen, last_seen) VALUES (5, 'DE/betasecret', now(), now());
CALL make_audit_partitions('1 month');
INSERT INTO link_audit (workspace_id, link_id, action, short_code, new_values, session_role, changing_role)
    VALUES (5, 1, 'insert', 'betasecret', '{}', 'betasecret', 'betasecret');
INSERT INTO link_archive SELECT *, now() FROM link;
SELECT create_api_key('reader', '{links:read}', workspace => 'acme') AS reader \gset
SELECT set_password('a@acme.example', 'acme', 'acme');
SELECT create_api_key('betasecret', '{admin}', workspace => 'betasecret') AS beta, create_api_key('acme', '{admin}', workspace => 'acme') AS acme \gset

-- Nothing foreign is seen, changed or made, whatever the relation.
CREATE FUNCTION public.shortener_test_leaks() RETURNS TABLE (relation name, how text, result text) LANGUAGE sql AS $$
    SELECT c.relname, a.how, public.shortener_test_attempt(a.query) AS result
    FROM pg_class c
    CROSS JOIN LATERAL (
        VALUES ('seen', format('SELECT count(*) FROM shortener.%I t WHERE t::text LIKE ''%%betasecret%%''', c.relname)),
               ('counted', format('SELECT count(*) FROM shortener.%I WHERE %I = 5', c.relname,
                    CASE c.relname WHEN 'workspace' THEN 'id' ELSE 'workspace_id' END)),
               ('changed', format('WITH u AS (UPDATE shortener.%I SET %2$I = %2$I WHERE %2$I = 5 RETURNING 1) SELECT count(*) FROM u', c.relname,
                    CASE c.relname WHEN 'workspace' THEN 'id' ELSE 'workspace_id' END)),
               ('removed', format('WITH d AS (DELETE FROM shortener.%I WHERE %I = 5 RETURNING 1) SELECT count(*) FROM d', c.relname,
                    CASE c.relname WHEN 'workspace' THEN 'id' ELSE 'workspace_id' END))) a (how, query)
    WHERE c.relnamespace = 'shortener'::regnamespace AND c.relkind IN ('r', 'p', 'v')
      AND (a.how = 'seen' OR EXISTS (SELECT FROM shortener.tenant_tables() t WHERE t.name = c.relname))
$$;
SELECT isnt(public.shortener_test_attempt(format('SELECT count(*) FROM shortener.%I WHERE %I = 5', name, CASE name WHEN 'workspace' THEN 'id' ELSE 'workspace_id' END)), '0',
    'there is something foreign in ' || name) FROM tenant_tables() WHERE name <> 'role_workspace';
ANALYZE shortener.link, shortener.workspace_user, shortener.api_key;
SELECT isnt_empty($$ SELECT FROM pg_stats WHERE schemaname = 'shortener' $$, 'there are statistics');
SELECT authenticate(:'acme');
SET LOCAL ROLE shortener_test_writer;
SELECT is_empty($$ SELECT * FROM public.shortener_test_leaks() WHERE result NOT IN ('0', '42501') $$, 'a writer: nothing foreign');
SELECT is((SELECT count(*) FROM link), 1::bigint, '... but the own');
SET LOCAL ROLE shortener_test_analyst;
SELECT is_empty($$ SELECT * FROM public.shortener_test_leaks() WHERE result NOT IN ('0', '42501') $$, 'an analyst: nothing foreign');
SELECT is((SELECT count(*) FROM link), 1::bigint, '... but the own');
SET LOCAL ROLE shortener_test_admin;
SELECT is_empty($$ SELECT * FROM public.shortener_test_leaks() WHERE result NOT IN ('0', '42501') $$, 'an admin: nothing foreign');
SELECT results_eq('SELECT email FROM workspace_user', $$ VALUES ('a@acme.example' COLLATE "C") $$, '... but the own');
SELECT is(public.shortener_test_attempt($$ INSERT INTO shortener.link (workspace_id, short_code, original_url, redirect_status) VALUES (5, 'x', 'https://x.example/', 302) $$), '42501', 'nothing is made');
SELECT is(public.shortener_test_attempt($$ INSERT INTO shortener.workspace_user (workspace_id, email) VALUES (5, 'x@example.com') $$), '42501', 'no user');
SELECT is(public.shortener_test_attempt($$ INSERT INTO shortener.api_key (workspace_id, prefix, digest, name, scopes) VALUES (5, 'sk_00000000', sha256(''), 'x', '{admin}') $$), '42501', 'no key');
SELECT is(public.shortener_test_attempt($$ UPDATE shortener.link SET workspace_id = 5 $$), '42501', 'nothing is given away');
SELECT is(public.shortener_test_attempt($$ UPDATE shortener.workspace SET slug = 'betasecret' $$), '42501', 'no slug is guessed');
SELECT is(public.shortener_test_attempt($$ SELECT digest FROM shortener.api_key $$), '42501', 'nor are digests of keys read');
SELECT is(public.shortener_test_attempt($$ SELECT hash FROM shortener.user_password $$), '42501', 'or hashes of passwords');
SELECT is(public.shortener_test_attempt($$ UPDATE shortener.api_key_use SET window_uses = 0 $$), '42501', 'or uses forgotten');

-- A role that was granted too much: partitions under their own names, and what belongs to no tenant.
RESET ROLE;
CREATE ROLE shortener_test_all;
GRANT USAGE ON SCHEMA shortener TO shortener_test_all;
GRANT ALL ON ALL TABLES IN SCHEMA shortener TO shortener_test_all;
SELECT is((SELECT count(*) FROM pg_class WHERE relnamespace = 'shortener'::regnamespace AND relispartition AND relkind = 'r' AND NOT relrowsecurity), 0::bigint,
    'each partition has row-level security');
SELECT cmp_ok((SELECT count(*) FROM click_event), '>', 0::bigint, 'there are clicks');
SELECT cmp_ok((SELECT count(*) FROM click_salt), '>', 0::bigint, '... and a salt');
SET LOCAL ROLE shortener_test_all;
SELECT is_empty($$ SELECT * FROM public.shortener_test_leaks() WHERE result NOT IN ('0', '42501') $$, 'a role with all privileges: nothing foreign');
SELECT is_empty($$ SELECT relname, rows FROM (SELECT c.relname, public.shortener_test_attempt(format('SELECT count(*) FROM shortener.%I', c.relname)) AS rows
                   FROM pg_class c WHERE c.relnamespace = 'shortener'::regnamespace AND c.relispartition AND c.relkind = 'r') p WHERE rows <> '0' $$, '... nor in partitions');
SELECT is((SELECT count(*) FROM click_salt), 0::bigint, '... no salts of days');
SET LOCAL enable_seqscan = off;
-- Raw clicks have no index by tenant: they are found by their time.
SELECT set_eq($$ SELECT t.name, command FROM tenant_tables() t
    CROSS JOIN LATERAL (SELECT CASE t.name WHEN 'workspace' THEN 'id' ELSE 'workspace_id' END AS key) k
    CROSS JOIN LATERAL (VALUES ('select', format('SELECT FROM shortener.%I', t.name), t.read_scope),
        ('update', format('UPDATE shortener.%I SET %I = %2$I', t.name, k.key), t.write_scope),
        ('delete', format('DELETE FROM shortener.%I', t.name), t.write_scope)) c (command, query, scope)
    WHERE c.scope IS NOT NULL AND public.shortener_test_plan(c.query) !~ ('Index Cond: \(' || k.key || ' = (shortener\.)?permitted_workspace') $$,
    $$ VALUES ('click_event', 'select') $$, 'policies are conditions of an index of each table');
RESET enable_seqscan;
SELECT is((SELECT count(*) FROM installation), 0::bigint, '... no key of notifications');
SELECT is((SELECT count(*) FROM workspace_key), 0::bigint, '... no keys of workspaces');
SELECT throws_ok($$ INSERT INTO role_access VALUES ('shortener_test_all', 'redirector') $$, '42501', NULL, '... and no access that a later grant_access would give it');

-- Each function that takes a workspace, from the catalog.
RESET ROLE;
CREATE TEMP TABLE example (argument text, value text);
INSERT INTO example VALUES ('code', 'betasecret'), ('url', 'https://betasecret.example/'), ('urls', '{https://betasecret.example/}'), ('query', 'betasecret'),
    ('email', 'a@betasecret.example'), ('password', 'betasecret'), ('subject', 'x'), ('status', 'suspended'), ('name', 'x'), ('host', 'x.example'),
    ('not_found_text', 'x'), ('gone_text', 'x'), ('role', 'postgres'), ('tag', 'x'),
    ('title', 'x'), ('bucket', 'day'), ('since', '2026-01-01'), ('until', '2026-01-03'), ('dimension', 'country');
GRANT SELECT ON example TO PUBLIC;
CREATE TEMP VIEW foreign_call AS
    SELECT p.proname, format('SELECT x::text FROM shortener.%I(%s) x', p.proname, string_agg(
               format('%I => %L', n.name, CASE n.name WHEN 'workspace' THEN 'betasecret' ELSE e.value END), ', ' ORDER BY n.place)) AS query
    FROM pg_proc p
    CROSS JOIN LATERAL unnest(p.proargnames[1:p.pronargs]) WITH ORDINALITY n (name, place)
    LEFT JOIN example e ON e.argument = n.name
    WHERE p.pronamespace = 'shortener'::regnamespace AND 'workspace' = ANY (p.proargnames[1:p.pronargs]) AND p.prokind = 'f' AND p.provolatile <> 'i'
      AND (n.name = 'workspace' OR n.place <= p.pronargs - p.pronargdefaults)
    GROUP BY p.oid, p.proname;
GRANT SELECT ON foreign_call TO PUBLIC;
SELECT cmp_ok((SELECT count(*) FROM foreign_call), '>', 15::bigint, 'functions take a workspace');
CREATE FUNCTION public.shortener_test_foreign_finds() RETURNS TABLE (called name, result text) LANGUAGE sql AS $$
    SELECT c.proname, c.result FROM (SELECT f.proname, public.shortener_test_attempt(f.query) AS result FROM pg_temp.foreign_call f OFFSET 0) c
    WHERE c.result IS DISTINCT FROM '42704' AND c.result IS DISTINCT FROM '42501'
$$;
SET LOCAL ROLE shortener_test_redirector;
SELECT is_empty('SELECT * FROM public.shortener_test_foreign_finds()', '... in which a redirector calls none');
SET LOCAL ROLE shortener_test_writer;
SELECT is_empty('SELECT * FROM public.shortener_test_foreign_finds()', '... a writer finds no foreign one');
SET LOCAL ROLE shortener_test_analyst;
SELECT is_empty('SELECT * FROM public.shortener_test_foreign_finds()', '... nor does an analyst');
SET LOCAL ROLE shortener_test_admin;
SELECT is_empty('SELECT * FROM public.shortener_test_foreign_finds()', '... nor an admin');
SELECT is((SELECT count(*) FROM describe_links(5, ARRAY(SELECT generate_series(1, 20)))), 0::bigint, 'nothing foreign is described');
SELECT is((SELECT count(*) FROM page_texts(5)), 0::bigint, 'no texts are read');
SELECT throws_ok($$ SELECT user_id('a@betasecret.example', 5) $$, '42704', NULL, 'no user is found');
SELECT is((SELECT count(*) FROM search_links('betasecret')), 0::bigint, 'nothing to search');
SELECT is(check_password(5, 1, 'betasecret'), false, 'no foreign password is tried');
SELECT is(revoke_api_key(left(:'beta', 11)), false, 'no foreign key is revoked');
SELECT is(update_workspace('betasecret', name => 'x'), false, 'no foreign workspace is changed');
SELECT is_empty($$ SELECT FROM pg_stats WHERE schemaname = 'shortener' $$, 'no statistics');

-- An API key that may not read passwords does not try them either.
SELECT is(check_password(current_workspace_id(), user_id('a@acme.example', current_workspace_id()), 'acme'), true, 'a password of the own workspace');
SELECT user_id('a@acme.example', current_workspace_id()) AS user \gset
SELECT authenticate(:'reader');
SELECT is(check_password(current_workspace_id(), :user, 'acme'), false, '... takes the scope admin');
RESET ROLE;
SELECT authenticate(:'acme');

-- Resolving is for every workspace, and no more than resolving.
RESET ROLE;
CREATE FUNCTION public.shortener_test_print(t text) RETURNS boolean LANGUAGE plpgsql COST 0.0001 AS $$ BEGIN RAISE '%', t USING ERRCODE = 'P0001'; END $$;
SET LOCAL ROLE shortener_test_redirector;
SELECT is((SELECT location FROM resolve('betasecret', 'go.betasecret.example')), 'https://betasecret.example/', 'a redirector resolves');
SELECT is((SELECT http_status FROM resolve('betasecret-gone', 'go.betasecret.example')), 410, '... what is retired');
SELECT is((SELECT count(*) FROM page_texts(5)), 1::bigint, '... reads texts');
SELECT is(length(notification_key()), 16, '... and the key of notifications');
SELECT is(public.shortener_test_attempt('SELECT title FROM shortener.link'), '42501', '... but no titles');
SELECT is(public.shortener_test_attempt($$ SELECT shortener.shorten('https://x.example/') $$), '42501', '... and makes nothing');

-- A function in WHERE prints what it is given: only what may be seen.
SET LOCAL ROLE shortener_test_writer;
SELECT is((SELECT count(*) FROM link WHERE public.shortener_test_attempt(format('SELECT public.shortener_test_print(%L)', original_url)) <> 'P0001'), 0::bigint, 'a function in WHERE');
SELECT throws_ok('SELECT FROM link WHERE public.shortener_test_print(original_url)', 'P0001', 'https://acme.example/', '... sees the own rows alone');

SELECT * FROM finish();
ROLLBACK;
