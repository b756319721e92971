BEGIN;
CREATE EXTENSION shortener CASCADE;
SELECT plan(29);

SELECT throws_ok($$ SELECT * FROM shortener.resolve('a') $$, '55000', 'the tables of shortener are not installed', 'resolve before install');
SELECT throws_ok($$ SELECT * FROM shortener.resolve_many('{a}') $$, '55000', NULL, 'resolve_many before install');
SELECT throws_ok($$ SELECT shortener.create_workspace('a') $$, '55000', NULL, 'create_workspace before install');
SELECT throws_ok($$ SELECT shortener.add_domain('a') $$, '55000', NULL, 'add_domain before install');
SELECT throws_ok($$ SELECT shortener.block_host('a') $$, '55000', NULL, 'block_host before install');
SELECT throws_ok($$ SELECT shortener.notification_key() $$, '55000', NULL, 'notification_key before install');
SELECT throws_ok($$ SELECT shortener.set_page_texts('a', 'b') $$, '55000', NULL, 'set_page_texts before install');
SELECT throws_ok($$ SELECT * FROM shortener.page_texts(1) $$, '55000', NULL, 'page_texts before install');

CREATE FUNCTION pg_temp.hint(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    hint text;
BEGIN
    EXECUTE query;
    RETURN NULL;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
    RETURN hint;
END $$;
SELECT is(pg_temp.hint($$ SELECT * FROM shortener.resolve('a') $$), 'CALL shortener.install();', 'the hint names install()');

CALL shortener.install();
SELECT lives_ok('CALL shortener.install()', 'install is idempotent');
SELECT results_eq('SELECT slug, code_style FROM shortener.workspace', $$ VALUES ('default' COLLATE "C", 'scrambled') $$, 'one workspace, default');
SELECT is_empty($$
    SELECT c.oid::regclass FROM pg_class c JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e'
    JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'shortener' WHERE c.relkind <> 'v' $$, 'no table belongs to the extension');
SELECT is_empty($$
    SELECT a.attrelid::regclass, a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_type t ON t.oid = a.atttypid
    WHERE c.relnamespace = 'shortener'::regnamespace AND c.relkind IN ('r', 'p') AND a.attnum > 0
      AND coalesce(nullif(t.typelem, 0), t.oid) >= 16384 AND t.typname <> 'hll' $$, 'every column has a built-in type, or hll');
SELECT is_empty($$
    SELECT c.oid::regclass FROM pg_class c WHERE c.relnamespace = 'shortener'::regnamespace AND c.relkind IN ('r', 'p', 'v')
      AND NOT c.relispartition AND (c.relacl IS NOT NULL OR obj_description(c.oid, 'pg_class') IS NULL) $$, 'every table and view has a comment, and nobody but its owner may read it');


-- What repeats the columns of link has all of them.
CREATE FUNCTION pg_temp.columns_of(relation regclass) RETURNS SETOF text LANGUAGE sql AS $$
    SELECT attname || ' ' || format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = relation AND attnum > 0 AND NOT attisdropped $$;
SELECT bag_eq($$ SELECT pg_temp.columns_of('shortener.active_links') $$, $$ SELECT pg_temp.columns_of('shortener.link') $$,
    'active_links has every column of link');
SELECT bag_eq($$ SELECT pg_temp.columns_of('shortener.link_archive') $$,
    $$ SELECT pg_temp.columns_of('shortener.link') UNION ALL VALUES ('archived_at timestamp with time zone') $$,
    'link_archive has every column of link');

-- Views are made anew by every install(), under views of the user's own.
CREATE VIEW pg_temp.mine_too AS SELECT short_code FROM shortener.active_links;
DO $$ BEGIN EXECUTE (SELECT 'CREATE OR REPLACE VIEW shortener.active_links AS ' || replace(rtrim(pg_get_viewdef('shortener.active_links'), ';'), 'WHERE', 'WHERE false AND')); END $$;
SELECT alike(pg_get_viewdef('shortener.active_links'), '%false%', 'a view of an older version');
CALL shortener.install();
SELECT unalike(pg_get_viewdef('shortener.active_links'), '%false%', 'install() replaces it');

-- Constraints hold without the functions
PREPARE insert_link(text, text, int, bytea, timestamptz) AS
    INSERT INTO shortener.link (workspace_id, short_code, original_url, redirect_status, url_digest, expires_at)
    SELECT id, $1, $2, $3, $4, $5 FROM shortener.workspace;
SELECT throws_ok($$ EXECUTE insert_link('a b', 'http://a/', 302, NULL, NULL) $$, '23514', NULL, 'a code has no space');
SELECT throws_ok($$ EXECUTE insert_link('a', 'ftp://a/', 302, NULL, NULL) $$, '23514', NULL, 'a URL is http or https');
SELECT throws_ok($$ EXECUTE insert_link('a', E'http://a/\r\nSet-Cookie:', 302, NULL, NULL) $$, '23514', NULL, 'a URL has no line end');
SELECT throws_ok($$ EXECUTE insert_link('a', 'http://a/', 303, NULL, NULL) $$, '23514', NULL, 'a status is one of four');
SELECT throws_ok($$ EXECUTE insert_link('a', 'http://a/', 302, NULL, 'infinity') $$, '23514', NULL, 'never is NULL, not infinity');
SELECT throws_ok($$ EXECUTE insert_link('Admin', 'http://a/', 302, NULL, NULL) $$, '42939', 'short code "Admin" is reserved', 'reserved in any case');

-- Anybody may attach the trigger functions to a table of their own; that is refused, not a crash.
CREATE TABLE pg_temp.mine (workspace_id int, id int, short_code text, updated_at text);
CREATE TRIGGER a BEFORE INSERT ON mine FOR EACH ROW EXECUTE FUNCTION shortener.before_link_update();
CREATE TRIGGER b BEFORE UPDATE ON mine FOR EACH STATEMENT EXECUTE FUNCTION shortener.before_link_update();
CREATE TRIGGER c AFTER DELETE ON mine REFERENCING OLD TABLE AS old_link FOR EACH STATEMENT EXECUTE FUNCTION shortener.after_link_delete();
SELECT throws_ok(change, '39P01', NULL, change || ' on another table')
    FROM unnest('{INSERT INTO mine DEFAULT VALUES,UPDATE mine SET id = 1,DELETE FROM mine}'::text[]) change;
CREATE TRIGGER wrong BEFORE INSERT ON shortener.link FOR EACH ROW EXECUTE FUNCTION shortener.before_link_update();
SELECT throws_ok($$ EXECUTE insert_link('a', 'http://a/', 302, NULL, NULL) $$, '39P01', 'trigger "wrong" is not one of shortener.link', 'or otherwise');
DROP TRIGGER wrong ON shortener.link;

SET LOCAL client_min_messages = warning; -- not a list of what goes with it
DROP EXTENSION shortener CASCADE;
CREATE EXTENSION shortener CASCADE;
SELECT set_eq($$ SELECT tgname FROM pg_trigger WHERE tgrelid = 'shortener.link'::regclass AND NOT tgisinternal $$,
    '{before_link_update,after_link_insert,after_link_update,after_link_delete,after_link_truncate}'::name[], 'the triggers come back with the extension');

SELECT * FROM finish();
ROLLBACK;
