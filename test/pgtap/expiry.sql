-- cleanup_expired commits, so this file is no transaction: it makes its own tables and drops them at the end.
\set ON_ERROR_STOP 1
SET client_min_messages = warning;
CREATE EXTENSION shortener CASCADE;
CALL shortener.install();
SELECT plan(44);

-- Links of a given age after expiry, as nobody can make them by create_link.
CREATE FUNCTION expired_links(how_many int, ago interval, prefix text) RETURNS void LANGUAGE sql AS $$
    INSERT INTO shortener.link (workspace_id, short_code, original_url, redirect_status, expires_at, title)
    SELECT w.id, prefix || i, 'https://example.com/' || prefix || i, 302, now() - ago, 'kept'
    FROM shortener.workspace w, generate_series(1, how_many) i WHERE w.slug = 'default'
$$;
CREATE FUNCTION status(code text) RETURNS int LANGUAGE sql AS 'SELECT http_status FROM shortener.resolve(code)';

SELECT expired_links(25, '40 days', 'old-');
SELECT expired_links(5, '2 days', 'young-');
SELECT expired_links(5, '-1 day', 'live-');

SELECT is(status('old-1'), 410, 'an expired link is gone before any cleanup');
SELECT is(status('young-1'), 410, 'at once');
SELECT is(status('live-1'), 302, 'one that has yet to expire redirects');

CALL shortener.cleanup_expired(batch_size => 10);
SELECT is((SELECT count(*) FROM shortener.link WHERE short_code LIKE 'old-%'), 0::bigint, 'what expired long ago is removed');
SELECT is((SELECT count(*) FROM shortener.link WHERE short_code LIKE 'young-%'), 5::bigint, 'what expired lately stays');
SELECT is((SELECT count(*) FROM shortener.link WHERE short_code LIKE 'live-%'), 5::bigint, 'what lives stays');
SELECT is((SELECT count(*) FROM shortener.retired_code), 25::bigint, 'each removed code is retired');
SELECT is(status('old-1'), 410, 'a retired code is gone, not unknown');
SELECT is(status('old-26'), 404, 'a code that never was is unknown');
SELECT throws_ok($$ SELECT * FROM shortener.create_link('https://example.com/', alias => 'old-1') $$, '23505', NULL,
    'a retired code is never given out again');
SELECT throws_ok($$ INSERT INTO shortener.link (workspace_id, short_code, original_url, redirect_status)
    SELECT id, 'old-2', 'https://example.com/', 302 FROM shortener.workspace WHERE slug = 'default' $$, '23505', NULL,
    'not even by a plain INSERT');
SELECT results_eq('SELECT total_cleaned::bigint, last_batch_size, successful_runs::bigint, failed_runs::bigint, is_running FROM shortener.cleanup_stats',
    'VALUES (25::bigint, 5, 1::bigint, 0::bigint, false)', 'the run is counted');
SELECT ok((SELECT last_cleanup_time > now() - interval '1 minute' AND average_cleanup_ms > 0 FROM shortener.cleanup_stats), 'and timed');
SELECT is((SELECT count(*) FROM shortener.link_archive), 0::bigint, 'nothing is archived unasked');

CALL shortener.cleanup_expired(older_than => '1 day', archive => true);
SELECT is((SELECT count(*) FROM shortener.link_archive WHERE short_code LIKE 'young-%' AND title = 'kept' AND archived_at IS NOT NULL),
    5::bigint, 'archive keeps whole rows');
SELECT is(status('young-1'), 410, 'an archived code is gone too');

SELECT expired_links(3, '30 minutes', 'now-');
SELECT expired_links(3, '2 hours', 'hours-');
CALL shortener.cleanup_expired(older_than => '0');
SELECT is((SELECT count(*) FROM shortener.link WHERE short_code LIKE 'now-%'), 3::bigint, 'nothing goes within an hour of its expiry');
SELECT is((SELECT count(*) FROM shortener.link WHERE short_code LIKE 'hours-%'), 0::bigint, 'after it, on request');

SELECT throws_ok('CALL shortener.cleanup_expired(batch_size => 0)', '22023', 'batch_size must be from 1 to 100000', 'a batch of nothing');
SELECT throws_ok('CALL shortener.cleanup_expired(older_than => NULL)', '22004', NULL, 'no age');
SELECT throws_ok($$ CALL shortener.cleanup_expired(max_duration => '-1 s') $$, '22023', 'max_duration must be positive', 'no time');

-- A batch that fails: the ones before it are done, the run is recorded.
SELECT expired_links(10, '50 days', 'early-');
SELECT expired_links(10, '40 days', 'poison-');
CREATE FUNCTION poison() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.short_code LIKE 'poison-%' THEN RAISE 'poisoned' USING ERRCODE = 'data_exception'; END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER poison BEFORE DELETE ON shortener.link FOR EACH ROW EXECUTE FUNCTION poison();
\set answer `psql -Xq -v VERBOSITY=sqlstate -c 'CALL shortener.cleanup_expired(batch_size => 10)' 2>&1`
SELECT is(:'answer'::text, 'ERROR:  22000', 'the error of a failed batch comes out');
DROP TRIGGER poison ON shortener.link;
SELECT is((SELECT count(*) FROM shortener.retired_code WHERE short_code LIKE 'early-%'), 10::bigint, 'the batches before it are kept');
SELECT is((SELECT count(*) FROM shortener.link WHERE short_code LIKE 'poison-%'), 10::bigint, 'the failed one is undone');
SELECT results_eq('SELECT total_cleaned::bigint, successful_runs::bigint, failed_runs::bigint FROM shortener.cleanup_stats',
    'VALUES (43::bigint, 3::bigint, 1::bigint)', 'and the failure is counted');

-- The table of runs stays small, the sums stay whole.
INSERT INTO shortener.cleanup_run (started_at, finished_at, pid, backend_start, removed)
    SELECT now(), now(), 0, now(), 1 FROM generate_series(1, 1500);
CALL shortener.cleanup_expired();
SELECT cmp_ok((SELECT count(*) FROM shortener.cleanup_run), '<=', 1000::bigint, 'a thousand runs are kept');
SELECT results_eq('SELECT total_cleaned::bigint, successful_runs::bigint, failed_runs::bigint FROM shortener.cleanup_stats',
    'VALUES (1553::bigint, 1504::bigint, 1::bigint)', 'and no total is lost');

-- A cancelled run is over, also while its session goes on.
SELECT expired_links(20000, '45 days', 'slow-');
\set answer `psql -XAtq -v VERBOSITY=sqlstate -c "SET statement_timeout = '500ms'" -c 'CALL shortener.cleanup_expired(batch_size => 1)' -c 'SELECT is_running, failed_runs FROM shortener.cleanup_stats' 2>&1`
SELECT is(:'answer'::text, E'ERROR:  57014\nf|2', 'a cancelled run has failed and does not run');
DELETE FROM shortener.link WHERE short_code LIKE 'slow-%';

-- Names come from pg_catalog, whatever the caller's search_path says.
CREATE SCHEMA evil;
CREATE FUNCTION evil.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql AS $$ BEGIN RAISE 'not this one'; END $$;
CREATE FUNCTION evil.fails(timestamptz, timestamptz) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE 'not this one'; END $$;
CREATE OPERATOR evil.< (LEFTARG = timestamptz, RIGHTARG = timestamptz, FUNCTION = evil.fails);
CREATE OPERATOR evil.= (LEFTARG = timestamptz, RIGHTARG = timestamptz, FUNCTION = evil.fails);
\set answer `psql -XAtq -c 'SET search_path = evil, pg_catalog, public' -c 'CALL shortener.cleanup_expired()' -c "SELECT count(*) FROM shortener.shorten_many('{https://evil.example/}')" 2>&1`
DROP SCHEMA evil CASCADE;
SELECT is(:'answer'::text, '1', 'search_path changes neither cleanup_expired nor shorten_many');

-- An archived link that somebody brought back
SELECT expired_links(1, '40 days', 'again-');
CALL shortener.cleanup_expired(archive => true, older_than => '35 days');
DELETE FROM shortener.retired_code WHERE short_code = 'again-1';
INSERT INTO shortener.link (workspace_id, id, short_code, original_url, redirect_status, expires_at)
    SELECT workspace_id, id, short_code, original_url, redirect_status, expires_at FROM shortener.link_archive WHERE short_code = 'again-1';
CALL shortener.cleanup_expired(archive => true, older_than => '35 days');
SELECT is((SELECT count(*) FROM shortener.link_archive WHERE short_code = 'again-1'), 2::bigint, 'is archived once more');

-- No batch starts after max_duration.
SELECT expired_links(30, '40 days', 'long-');
CALL shortener.cleanup_expired(batch_size => 10, max_duration => '1 microsecond');
SELECT is((SELECT count(*) FROM shortener.link WHERE short_code LIKE 'long-%'), 20::bigint, 'a run ends after max_duration');

-- It commits, so it must be alone, and says so.
SELECT throws_ok('CALL shortener.cleanup_expired()', '25001', 'cleanup_expired cannot run inside a transaction block', 'in a function');
\set answer `psql -Xq -v VERBOSITY=sqlstate -c 'BEGIN' -c 'CALL shortener.cleanup_expired()' 2>&1`
SELECT is(:'answer'::text, 'ERROR:  25001', 'in a block');
\set answer `psql -Xq -v VERBOSITY=sqlstate -c 'SET lock_timeout = 0; CALL shortener.cleanup_expired()' 2>&1`
SELECT is(:'answer'::text, 'ERROR:  25001', 'in a command with another statement');
\set answer `psql -Xq -v VERBOSITY=sqlstate -c 'DO $$ BEGIN CALL shortener.cleanup_expired(); EXCEPTION WHEN data_exception THEN END $$' 2>&1`
SELECT is(:'answer'::text, 'ERROR:  25001', 'in a block with an exception handler');

-- A role that may do it, in a session of another: SET ROLE hides the session from pg_stat_activity.
CREATE ROLE cleaner;
GRANT USAGE ON SCHEMA shortener TO cleaner;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA shortener TO cleaner;
GRANT EXECUTE ON ALL ROUTINES IN SCHEMA shortener TO cleaner;
SELECT expired_links(1, '40 days', 'role-');
\set answer `psql -XAtq -c 'SET ROLE cleaner' -c 'CALL shortener.cleanup_expired()' 2>&1`
SELECT is(:'answer'::text, '', 'a cleanup after SET ROLE');
SELECT is((SELECT count(*) FROM shortener.link WHERE short_code = 'role-1'), 0::bigint, 'does its work');

-- A foreign key of the user's own
SELECT expired_links(2, '40 days', 'held-');
CREATE TABLE holder (workspace_id int, link_id bigint, FOREIGN KEY (workspace_id, link_id) REFERENCES shortener.link (workspace_id, id));
INSERT INTO holder SELECT workspace_id, id FROM shortener.link WHERE short_code = 'held-2';
\set answer `psql -XAtq -c 'CALL shortener.cleanup_expired()' 2>&1`
SELECT matches(:'answer'::text, 'violates foreign key constraint "holder_.*" on table "holder".*It is the link "held-2"', 'the error names the link');
SELECT matches(error, 'foreign key.*It is the link "held-2"', 'so does the record') FROM shortener.cleanup_run ORDER BY id DESC LIMIT 1;
DROP TABLE holder;

-- A job does not run the code of others with its own rights.
GRANT CREATE ON SCHEMA public TO cleaner;
SET ROLE cleaner;
CREATE FUNCTION seize() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'ALTER ROLE cleaner SUPERUSER'; RETURN OLD; END $$;
RESET ROLE;
GRANT TRIGGER ON shortener.link TO cleaner;
SET ROLE cleaner;
CREATE TRIGGER seize BEFORE DELETE ON shortener.link FOR EACH ROW EXECUTE FUNCTION seize();
RESET ROLE;
\set answer `psql -XAtq -c 'CALL shortener.cleanup_expired()' 2>&1`
SELECT matches(:'answer'::text, 'trigger "seize" of table shortener.link calls a function of role "cleaner"', 'a trigger of a role that is not the owner');
DROP TRIGGER seize ON shortener.link;
ALTER TABLE shortener.link OWNER TO cleaner;
\set answer `psql -XAtq -c 'CALL shortener.cleanup_expired()' 2>&1`
SELECT matches(:'answer'::text, 'a superuser must not run this job on tables of role "cleaner".*Connect as role cleaner', 'a superuser on tables of another role');
SELECT is((SELECT rolsuper FROM pg_roles WHERE rolname = 'cleaner'), false, 'the role has won nothing');
ALTER TABLE shortener.link OWNER TO CURRENT_USER;
SELECT is((SELECT count(*) FROM shortener.link WHERE short_code LIKE 'held-%'), 2::bigint, 'and nothing was removed');

-- Default life of links
SELECT shortener.create_workspace('brief', 'Brief', default_ttl => '1 hour');
SELECT ok((SELECT expires_at BETWEEN now() + interval '59 minutes' AND now() + interval '61 minutes'
    FROM shortener.create_link('https://example.com/', workspace => 'brief')), 'a workspace gives its links a life');

SELECT * FROM finish();
DROP EXTENSION shortener CASCADE;
DROP SCHEMA shortener CASCADE;
DROP FUNCTION expired_links, status, poison, seize;
DROP OWNED BY cleaner;
DROP ROLE cleaner;
