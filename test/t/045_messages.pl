# What errors show: nothing without bounds, and in the log no passwords.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('messages');
$node->init;
$node->append_conf('postgresql.conf', "log_statement = none\nlog_parameter_max_length_on_error = -1\n");
$node->start;
$node->safe_psql('postgres', q{
	CREATE EXTENSION shortener CASCADE; CALL shortener.install();
	SELECT shortener.create_link('https://a.example/', alias => 'known'), shortener.create_user('a@b.example')});

# Each routine of the catalog, with a long text in the place of one argument after another; the others are as usual.
my $longest = $node->safe_psql('postgres', <<'SQL');
CREATE TEMP TABLE usual (name text PRIMARY KEY, value text);
INSERT INTO usual VALUES ('url', 'https://b.example/'), ('code', 'known'), ('email', 'a@b.example'), ('slug', 'default'), ('bucket', 'day'), ('capability', 'writer'),
	('role', 'pg_monitor'), ('username', 'pg_monitor'), ('scopes', '{admin}'), ('urls', '{https://c.example/}'), ('rules', '{sort_query}'), ('tag', 'a'), ('password', 'p'),
	('name', 'n'), ('subject', 's'), ('code_style', 'scrambled'), ('redirect_status', '302'), ('database', current_database()), ('schedules', '{}'),
	('batch_id', gen_random_uuid()::text), ('link_ids', '{1}'), ('clicked_at', '{now}'), ('dimension', 'os'), ('status', 'active'), ('links', 'keep'), ('host', 'h.example'),
	('max_rows', '5'), ('workspace', 'default'), ('workspace_id', '1'), ('user_id', '1'), ('reuse', 'true');
CREATE TEMP TABLE long AS SELECT * FROM (VALUES (repeat('x', 100000)), (repeat('word ', 20000)), ('https://' || repeat('a.', 50000)), (repeat('abcdefg.', 7500) || 'com')) l (text);
CREATE TEMP TABLE shown (routine text, bytes integer, sqlstate text);
DO $$
DECLARE
	routine record;
	place integer;
	long_text text;
	arguments text;
	message text;
	detail text;
	hint text;
	state text;
BEGIN
	FOR routine IN SELECT p.oid, p.prokind, p.proargtypes::oid[] AS types, p.proargnames AS names, format('shortener.%I', p.proname) AS name
		FROM pg_proc p WHERE p.pronamespace = 'shortener'::regnamespace AND p.prokind IN ('f', 'p') AND p.prorettype <> 'trigger'::regtype
	LOOP
		FOR place IN SELECT o FROM unnest(routine.types) WITH ORDINALITY t (type, o) WHERE type IN ('text'::regtype, 'text[]'::regtype, 'name'::regtype, 'jsonb'::regtype) LOOP
			SELECT string_agg(CASE WHEN t.o <> place THEN format('%L::%s', u.value, t.type::regtype)
				ELSE CASE t.type::regtype WHEN 'text[]'::regtype THEN 'ARRAY[$1]' WHEN 'jsonb'::regtype THEN 'jsonb_build_object($1, $1)' ELSE '$1::' || t.type::regtype END END, ', ' ORDER BY t.o)
				INTO arguments FROM unnest(routine.types) WITH ORDINALITY t (type, o) LEFT JOIN usual u ON u.name = routine.names[t.o];
			FOR long_text IN SELECT text FROM long LOOP
				BEGIN
					EXECUTE CASE routine.prokind WHEN 'p' THEN format('CALL %s(%s)', routine.name, arguments)
						ELSE format('SELECT count(f::text) FROM %s(%s) f', routine.name, arguments) END USING long_text;
				EXCEPTION WHEN OTHERS THEN
					GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT, state = RETURNED_SQLSTATE;
					INSERT INTO shown VALUES (routine.oid::regprocedure, octet_length(message || detail || hint), state);
				END;
			END LOOP;
		END LOOP;
	END LOOP;
END $$;
SELECT 'calls', count(*) > 200 FROM shown;
SELECT DISTINCT routine FROM shown WHERE bytes > 4000 OR sqlstate LIKE 'XX%' OR sqlstate = '54001';
SQL
is($longest, 'calls|t', 'no argument makes a message long, or an internal error');

# The log beside errors.
my $offset = -s $node->logfile;
for my $call (q{set_password('nobody@b.example', 'hunter2')}, q{set_password('a@b.example', 'hunter2', 'nowhere')}, q{verify_password('a@b.example', 'hunter2', 'nowhere')},
	q{SET_PASSWORD('a@b.example', 'hunter2' || repeat('x', 80))}, q{hash_password('hunter2')}, q{set_password('a@b.example', 'hunter2'})
{
	my ($status) = $node->psql('postgres', "SELECT shortener.shorten(NULL); SELECT shortener.$call");
	is($status, 3, "$call fails");
}
my $script = PostgreSQL::Test::Utils::tempdir() . '/parameter.sql';
append_to_file($script, "SELECT shortener.shorten(NULL);\nSELECT shortener.set_password('somebody\@b.example', :password);\n");
run_log([ 'pgbench', '-n', '-t', 1, '-M', 'extended', '-D', 'password=hunter2', '-f', $script, '-h', $node->host, '-p', $node->port, 'postgres' ]);
my $log = substr(slurp_file($node->logfile), $offset);
like($log, qr/ERROR:  user "nobody\@b\.example" does not exist/, 'errors are logged');
like($log, qr/somebody.*unnamed portal with parameters: ?$/ms, 'also those with parameters');
unlike($log, qr/hunter2/, 'without the passwords of their statements');
$node->psql('postgres', 'SELECT shortener.shorten(NULL); SELECT reset_password(42)');
like(substr(slurp_file($node->logfile), $offset), qr/reset_password\(42\)$/m, 'other statements are logged');

$node->stop;
done_testing();
