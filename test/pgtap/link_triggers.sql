-- What the documentation guarantees of links holds for raw SQL of a role that may write them.
BEGIN;
CREATE EXTENSION shortener CASCADE;
CALL shortener.install();
SELECT plan(54);

SELECT shortener.add_domain('go.example'), shortener.block_host('evil.example'), shortener.block_host('*.bad.example');
SELECT shortener.shorten('https://known.example/a') AS known, shortener.shorten('https://known.example/b') AS moved,
    (SELECT short_code FROM shortener.create_link('https://known.example/c', alias => 'own')) AS own \gset
SELECT shortener.shorten('https://known.example/deleted') AS deleted \gset
SELECT shortener.delete_link(:'deleted'), shortener.create_workspace('other');
CREATE ROLE shortener_test_writer;
GRANT USAGE ON SCHEMA shortener TO shortener_test_writer;
GRANT SELECT, INSERT, UPDATE, DELETE ON shortener.link TO shortener_test_writer;
GRANT SELECT ON shortener.reserved_code, shortener.retired_code TO shortener_test_writer;
GRANT USAGE ON SEQUENCE shortener.link_id_seq TO shortener_test_writer;
SET LOCAL search_path = shortener, public;
PREPARE insert_link(text, text, bytea) AS
    INSERT INTO link (workspace_id, short_code, original_url, redirect_status, url_digest) VALUES (1, $1, $2, 302, $3);
PREPARE update_url(text, text) AS UPDATE link SET original_url = $2 WHERE short_code = $1;

SET LOCAL ROLE shortener_test_writer;

-- The URL
CREATE FUNCTION pg_temp.forbidden() RETURNS TABLE (url text, sqlstate text, reason text) LANGUAGE sql AS $$ VALUES
    ('https://evil.example/', '22023', 'a blocked host'),
    ('https://a.b.bad.example/', '22023', 'a host below a blocked domain'),
    ('https://go.example/x', '22023', 'a domain of ours'),
    ('https://user:secret@a.example/', '22023', 'credentials'),
    ('https://a.example', '23514', 'not canonical'),
    ('https://A.example/', '23514', 'upper case in the host'),
    ('https://a.example:443/', '23514', 'the default port'),
    ('http://0x7f.1/', '23514', 'an address in disguise'),
    ('http://[::1/', '22P02', 'an invalid host'),
    ('https://a.example/' || repeat('a', 2031), '23514', 'too long') $$;
SELECT throws_ok(format('EXECUTE insert_link(%L, %L, NULL)', 'x', url), sqlstate, NULL, 'INSERT: ' || reason) FROM pg_temp.forbidden();
SELECT throws_ok(format('EXECUTE update_url(%L, %L)', :'own', url), sqlstate, NULL, 'UPDATE: ' || reason) FROM pg_temp.forbidden();
SELECT throws_ok($$ INSERT INTO link (workspace_id, short_code, original_url, redirect_status)
    SELECT 1, 'many-' || i, 'https://' || CASE i WHEN 1234 THEN 'evil' ELSE 'good' END || '.example/', 302 FROM generate_series(1, 2000) i $$,
    '22023', 'URL "https://evil.example/" leads to a blocked host', 'one among many');
SELECT throws_ok($$ MERGE INTO link l USING (VALUES ('own')) n (code) ON l.short_code = n.code WHEN MATCHED THEN UPDATE SET original_url = 'https://evil.example/' $$,
    '22023', NULL, 'MERGE');
SELECT throws_ok($$ INSERT INTO link (workspace_id, short_code, original_url, redirect_status) VALUES (1, 'own', 'https://evil.example/', 302)
    ON CONFLICT (workspace_id, short_code) DO UPDATE SET original_url = excluded.original_url $$, '22023', NULL, 'INSERT ON CONFLICT DO UPDATE');
SELECT throws_ok($$ UPDATE active_links SET original_url = 'https://evil.example/' $$, '42501', NULL, 'not through a view either');
SELECT lives_ok($$ EXECUTE insert_link('raw', 'https://raw.example/', NULL) $$, 'a link of its own');
SELECT throws_ok($$ UPDATE link SET original_url = NULL WHERE short_code = 'raw' $$, '23502', NULL, 'a link has a URL');

-- The digest
SELECT throws_ok($$ EXECUTE insert_link('forged', 'https://a.example/', '\x0102030405060708090a0b') $$, '23514',
    'url_digest of link "forged" is not the digest of its URL', 'INSERT with a digest that is not its own');
SELECT throws_ok(format($$ UPDATE link SET url_digest = (SELECT url_digest FROM link WHERE short_code = %L) WHERE short_code = 'raw' $$, :'known'),
    NULL, NULL, 'UPDATE to the digest of another URL');
SELECT lives_ok(format('EXECUTE update_url(%L, %L)', :'moved', 'https://elsewhere.example/'), 'a reusable link is led elsewhere');
SELECT is((SELECT url_digest FROM link WHERE short_code = :'moved'), NULL, 'and becomes a link of its own');
SELECT isnt(shorten('https://known.example/b'), :'moved', 'its old URL gets a new code');
SELECT isnt(shorten('https://elsewhere.example/'), :'moved', 'so does the new one');
SELECT lives_ok(format('EXECUTE update_url(%L, %L)', :'known', 'http://known.example/a'), 'a URL that counts as the same');
SELECT is(shorten('https://known.example/a'), :'known', 'keeps its code');

-- What is deleted or published stays so
SELECT throws_ok(format('UPDATE link SET deleted_at = %s WHERE short_code = %L', value, :'deleted'), '23000',
    'deleted_at of a deleted link cannot be changed', 'deleted is for ever: ' || value)
    FROM unnest(ARRAY['NULL', 'now() + interval ''1 day''']) value;
SELECT throws_ok(format('UPDATE link SET %I = %s WHERE short_code = %L', name, value, 'own'), '23000',
    name || ' of a link cannot be changed', name || ' is for ever')
    FROM (VALUES ('short_code', '''other'''), ('id', '-1')) c (name, value);
SELECT lives_ok($$ DELETE FROM link WHERE short_code = 'raw' $$, 'who may delete needs no right on retired_code');
SELECT throws_ok($$ EXECUTE insert_link('raw', 'https://raw.example/', NULL) $$, '23505', 'short code "raw" was used before', 'its code is retired');

-- A trigger of a user's own is seen, whatever its name.
RESET ROLE;
SELECT throws_ok($$ UPDATE link SET workspace_id = 2 WHERE short_code = 'own' $$, '23000',
    'workspace_id of a link cannot be changed', 'workspace_id is for ever');
CREATE FUNCTION pg_temp.divert() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.original_url := 'https://evil.example/'; RETURN NEW; END $$;
CREATE TRIGGER zzz BEFORE INSERT OR UPDATE ON link FOR EACH ROW EXECUTE FUNCTION pg_temp.divert();
SELECT throws_ok(call, NULL, NULL, 'a trigger that diverts ' || call)
    FROM unnest(ARRAY[$$SELECT shorten('https://diverted.example/')$$, $$SELECT * FROM shorten_many('{https://diverted.example/}')$$,
        $$SELECT create_link('https://diverted.example/', alias => 'diverted')$$, $$SELECT update_link('own', url => 'https://diverted.example/')$$]) call;
SELECT is_empty($$ SELECT * FROM link WHERE original_url ~ 'evil' $$, 'nothing that is forbidden is stored');
CREATE OR REPLACE FUNCTION pg_temp.divert() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.original_url := 'https://other.example/'; RETURN NEW; END $$;
SELECT throws_ok($$ SELECT shorten('https://diverted.example/') $$, '23514', NULL, 'not even to a good URL under the digest of another');
DROP TRIGGER zzz ON link;

-- What an owner may build on the table: children are seen through it, and rules of his own end in the same triggers.
CREATE TABLE pg_temp.child () INHERITS (link);
INSERT INTO pg_temp.child (id, workspace_id, short_code, original_url, redirect_status) VALUES (-1, 1, 'child', 'https://child.example/', 302);
SELECT throws_ok($$ UPDATE link SET original_url = 'https://evil.example/' WHERE short_code = 'child' $$, '22023', NULL, 'UPDATE of a row in a child');
SELECT throws_ok($$ UPDATE link SET short_code = 'grown' WHERE short_code = 'child' $$, '23000', NULL, 'of its code');
SELECT lives_ok($$ DELETE FROM link WHERE short_code = 'child' $$, 'DELETE of a row in a child');
SELECT ok(EXISTS (SELECT FROM retired_code WHERE short_code = 'child'), 'retires its code');
DROP TABLE pg_temp.child;
CREATE VIEW pg_temp.door AS SELECT * FROM link;
CREATE RULE divert AS ON INSERT TO pg_temp.door DO INSTEAD
    INSERT INTO link (workspace_id, short_code, original_url, redirect_status) VALUES (1, NEW.short_code, 'https://evil.example/', 302);
SELECT throws_ok($$ INSERT INTO pg_temp.door (short_code) VALUES ('door') $$, '22023', NULL, 'INSERT through a rule');

-- Only the owner and superusers get round the triggers: TRUNCATE forgets codes, and a replica takes what it is given.
SET LOCAL session_replication_role = replica;
SELECT lives_ok($$ EXECUTE insert_link('replica', 'https://evil.example/', NULL) $$, 'a replica stores what arrives');
RESET session_replication_role;
TRUNCATE link CASCADE;
SELECT lives_ok($$ EXECUTE insert_link('own', 'https://own.example/', NULL) $$, 'TRUNCATE forgets codes');

SELECT * FROM finish();
ROLLBACK;
