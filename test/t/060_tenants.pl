# Tenants on one server, each as a plain role with an API key: what the one does with statements, cursors, plans, workers
# and logs shows it nothing of the other.
use strict;
use warnings;

use Frontend;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = database('tenants', "session_preload_libraries = 'shortener'", 'log_statement = all', 'log_min_duration_statement = 0',
	'log_parameter_max_length = -1', 'log_parameter_max_length_on_error = -1', 'max_parallel_workers_per_gather = 4');

sub sql { my ($statement) = @_; return $node->safe_psql('postgres', $statement); }

# Statements of one session of the role; what they print, and their errors.
sub as_app
{
	my (@statements) = @_;
	my ($status, $out, $err) = $node->psql('postgres', join(";\n", @statements) . ';', extra_params => [ '-U', 'app' ], on_error_stop => 0);
	return wantarray ? ($out, $err) : $out;
}

sql(q{SELECT shortener.create_workspace('acme'), shortener.create_workspace('beta');
	CREATE ROLE app LOGIN; CREATE ROLE other; GRANT other TO app; GRANT CREATE ON SCHEMA public TO app;
	SELECT shortener.grant_access('app', 'writer'), shortener.grant_access('other', 'writer'), shortener.bind_role('app', NULL);
	SELECT count(shortener.shorten('https://acme.example/' || i, 'acme')), count(shortener.shorten('https://beta.example/' || i, 'beta')) FROM generate_series(1, 2000) i;
	ANALYZE shortener.link});
my $acme = sql(q{SELECT shortener.create_api_key('a', rate_limit => NULL, workspace => 'acme')});
my $beta = sql(q{SELECT shortener.create_api_key('b', rate_limit => NULL, workspace => 'beta')});
my $acme_key = "SELECT length(shortener.authenticate('$acme'))";
my $beta_key = "SELECT length(shortener.authenticate('$beta'))";
my $foreign = q{SELECT count(*) FILTER (WHERE original_url ~ 'beta'), count(*) FROM shortener.link};

is(as_app($foreign), '0|0', 'before authenticate() a role that is bound to no workspace sees nothing');
is(as_app('BEGIN', $acme_key, $foreign, 'COMMIT', $foreign), "4\n0|2000\n0|0", 'the own links, until the transaction ends');
is(as_app('BEGIN', $acme_key, 'ROLLBACK', $foreign), "4\n0|0", '... however it ends');
is(as_app("SELECT length(shortener.authenticate('$acme', true))", $foreign, 'BEGIN', $beta_key, 'COMMIT', $foreign, 'DISCARD ALL', $foreign),
	"4\n0|2000\n4\n0|2000\n0|0", 'a session, until DISCARD ALL');
is(as_app('BEGIN', "SELECT length(shortener.authenticate('$acme', true))", 'ROLLBACK', $foreign), "4\n0|0", '... unless its transaction is rolled back');
is(as_app("SELECT length(shortener.authenticate('$acme', true))", 'BEGIN', "SELECT length(shortener.authenticate('$beta', true))", 'ROLLBACK', $foreign), "4\n4\n0|2000", '... which leaves the one before');
is(as_app("SELECT length(shortener.authenticate('$acme', true))", 'RESET shortener.session_key', $foreign), "4\n0|0", '... or RESET');
is(as_app("SELECT length(shortener.authenticate('$acme', true))", 'BEGIN', 'RESET ALL', $foreign, 'ROLLBACK', $foreign, 'BEGIN', "SET LOCAL shortener.session_key = ''",
	$foreign, 'COMMIT', $foreign), "4\n0|0\n0|2000\n0|0\n0|2000", '... that is committed');

# A key that ends while a session holds it
my $held = sql(q{SELECT shortener.create_user('u@acme.example', workspace => 'acme'); SELECT shortener.create_api_key('held', rate_limit => NULL, workspace => 'acme', user_email => 'u@acme.example')});
$held =~ s/.*\n//s;
my $prefix = substr $held, 0, 11;
my $session = $node->background_psql('postgres', on_error_stop => 0, extra_params => [ '-U', 'app' ]);
my $sees = sub { $session->{stderr} = ''; my $seen = $session->query('SELECT count(*) FROM shortener.link'); return $seen eq '' ? $session->{stderr} : $seen; };
$session->query("SELECT shortener.authenticate('$held', true)");
is($sees->(), 2000, 'a session holds a key');
sql("SELECT shortener.set_user_status('u\@acme.example', 'suspended', 'acme')");
like($sees->(), qr/the user of API key "$prefix" is suspended/, '... until its user is suspended');
sql("SELECT shortener.set_user_status('u\@acme.example', 'active', 'acme')");
is($sees->(), 2000, '... and active again');
sql("UPDATE shortener.api_key SET scopes = '{links:read}' WHERE prefix = '$prefix'");
is($session->query('SELECT shortener.current_scopes()'), '{links:read}', '... or has less scopes');
sql("UPDATE shortener.api_key SET expires_at = clock_timestamp() + interval '1 second' WHERE prefix = '$prefix'");
eventually { $sees->() ne 2000 };
like($sees->(), qr/API key "$prefix" has expired/, '... or it expires');
sql("UPDATE shortener.api_key SET expires_at = NULL WHERE prefix = '$prefix'");
is($sees->(), 2000, '... or no more');
sql("SELECT shortener.revoke_api_key('$prefix')");
like($sees->(), qr/API key "$prefix" has been revoked/, '... or it is revoked');
like($sees->(), qr/has been revoked/, '... for good');
sql("DELETE FROM shortener.api_key WHERE prefix = '$prefix'");
like($sees->(), qr/API key "$prefix" has been removed/, '... or removed');
$session->query('RESET shortener.session_key');
is($sees->(), 0, 'then it works as its role alone');
$session->quit;

# Plans
is(as_app("PREPARE p AS $foreign", 'SET plan_cache_mode = force_generic_plan', 'EXECUTE p', 'BEGIN', $acme_key, 'EXECUTE p', 'COMMIT',
		'BEGIN', $beta_key, 'EXECUTE p', 'COMMIT', 'EXECUTE p'),
	"0|0\n4\n0|2000\n4\n2000|2000\n0|0", 'a statement prepared before authenticate() and run after it');
is(as_app("PREPARE p AS $foreign", 'SET plan_cache_mode = force_generic_plan', 'EXECUTE p', 'SET ROLE other', 'EXECUTE p', 'RESET ROLE', 'EXECUTE p'),
	"0|0\n0|0\n0|0", '... or in another role');
is(as_app('BEGIN', 'DECLARE c CURSOR WITH HOLD FOR SELECT original_url FROM shortener.link', 'COMMIT', 'BEGIN', $beta_key, 'FETCH c', 'COMMIT'), '4',
	'a cursor WITH HOLD from before sees nothing after');
like(as_app('BEGIN', $acme_key, 'DECLARE c CURSOR WITH HOLD FOR SELECT original_url FROM shortener.link ORDER BY id', 'COMMIT', 'BEGIN', $beta_key, 'FETCH c'),
	qr/acme/, '... and one from an authenticated transaction holds what that saw');

# Workers
my $parallel = 'SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0; SET min_parallel_index_scan_size = 0';
unlike(as_app($parallel, 'BEGIN', $acme_key, "EXPLAIN (COSTS OFF) $foreign"), qr/Parallel/, 'links of tenants are not read by parallel workers');
is(as_app($parallel, 'SET force_parallel_mode = on', 'BEGIN', $acme_key, $foreign), "4\n0|2000", '... which have no identity');
like(as_app('BEGIN', $acme_key, 'EXPLAIN (COSTS OFF) SELECT * FROM shortener.link WHERE id = 1'), qr/Index Scan.*\n.*permitted_workspace/, 'the policy is an index condition');
my ($out, $err) = as_app('CREATE FUNCTION public.leak() RETURNS int LANGUAGE sql PARALLEL SAFE AS $$ SELECT shortener.current_workspace_id() $$',
	$parallel, 'SET force_parallel_mode = on', 'BEGIN', $acme_key, 'SELECT public.leak()');
ok($out eq "4\n2" || $err =~ /parallel worker does not know/, 'a worker that is asked all the same does not answer wrongly');

# Names of the attacker's
is(as_app('CREATE FUNCTION public.permitted_workspace(text) RETURNS int LANGUAGE sql AS $$ SELECT 3 $$',
		'CREATE FUNCTION pg_temp.permitted_workspace(text) RETURNS int LANGUAGE sql AS $$ SELECT 3 $$',
		'CREATE FUNCTION public.eq(int, int) RETURNS boolean LANGUAGE sql AS $$ SELECT true $$',
		'CREATE OPERATOR public.= (LEFTARG = int, RIGHTARG = int, FUNCTION = public.eq)',
		'CREATE TEMP TABLE role_workspace AS SELECT 16384 AS role, 3 AS workspace_id', 'CREATE TEMP TABLE workspace AS SELECT 3 AS id, \'default\' AS slug',
		'CREATE TEMP TABLE api_key AS SELECT 3 AS workspace_id', 'SET search_path = pg_temp, public, shortener, pg_catalog',
		'SELECT count(*) FROM shortener.link', 'BEGIN', $acme_key, 'SELECT count(*) FROM shortener.link', 'SELECT shortener.current_workspace()'),
	"0\n4\n2000\nacme", 'objects of the caller shadow nothing');
($out, $err) = as_app(q{SELECT set_config('shortener.session_key', 'sk_aaaaaaaa', false)}, q{SET SESSION "shortener.session_key" = 'x'},
	q{ALTER ROLE app SET shortener.session_key = 'x'}, q{SET shortener.default_workspace = 'beta'}, q{SET row_security = off}, 'SELECT count(*) FROM shortener.link',
	'SET row_security = on', $foreign);
is($out, '0|0', 'no setting changes who one is');
like($err, qr/query would be affected by row-level security/, '... nor does row_security');

# Out by other ways
is(as_app('BEGIN', $acme_key, 'COPY shortener.link (original_url) TO STDOUT') =~ /beta/, '', 'COPY copies the own rows');
like((as_app('BEGIN', $acme_key, q{COPY shortener.link (workspace_id, short_code, original_url, redirect_status) FROM STDIN}))[1], qr/row-level security/, '... and does not copy in');
($out, $err) = as_app('BEGIN', $acme_key, q{CREATE FUNCTION public.show(text) RETURNS boolean LANGUAGE plpgsql COST 0.0001 AS $$ BEGIN RAISE NOTICE '%', $1; RETURN true; END $$},
	'SELECT count(*) FROM shortener.link WHERE public.show(original_url)');
like($err, qr/acme\.example/, 'a function in WHERE is called');
unlike($err, qr/beta\.example/, '... for the own rows alone');
($out, $err) = as_app('BEGIN', $acme_key, q{INSERT INTO shortener.link (id, workspace_id, short_code, original_url, redirect_status) SELECT 2001, 2, 'x' || n, 'https://x.example/', 302 FROM generate_series(1, 1) n});
unlike($err, qr/beta/, 'an error names nothing foreign');

# Logs
for my $call ("SELECT shortener.authenticate('$acme')", "SELECT shortener.authenticate('$acme' || 'x')", "SELECT 1 / length(shortener.authenticate('$acme')) / 0",
	"SELECT '$acme'::int", "PREPARE k AS SELECT shortener.authenticate(\$1); EXECUTE k('$acme')", "DO \$\$ BEGIN PERFORM shortener.authenticate('$acme'); RAISE '%', 1 / 0; END \$\$")
{
	$node->psql('postgres', $call, extra_params => [ '-U', 'app' ]);
}
my $script = PostgreSQL::Test::Utils::tempdir() . '/key.sql';
append_to_file($script, "SELECT shortener.authenticate(:key::text);\nSELECT (:key::text)::int;");
for my $length (-1, 20, 45) # of what is logged of a parameter; what is left of a key that was cut off is hidden as well
{
	sql("ALTER SYSTEM SET $_ = $length") for 'log_parameter_max_length', 'log_parameter_max_length_on_error';
	$node->reload;
	eventually { sql("SELECT count(*) FROM pg_settings WHERE name ~ '^log_parameter_max_length' AND setting = '$length'") == 2 };
	IPC::Run::run([ 'pgbench', '-n', '-M', 'extended', '-t', 1, '-U', 'app', '-h', $node->host, '-p', $node->port, '-D', "key=$acme", '-f', $script, 'postgres' ],
		'>', \my $ignored, '2>', \my $errors);
}
my $log = slurp_file($node->logfile);
like($log, qr/parameters: \$1 = 'sk_\w{8}\*{35}'/, 'parameters are logged');
unlike($log, qr/\Q$acme\E/, '... and statements, but no API key');
like($log, qr/parameters: \$1 = 'sk_\w{8}\*{9}\.\.\.'/, 'also parameters that are cut off');
unlike($log, qr/\Q@{[ substr $acme, 0, 12 ]}\E/, '... and no part of a key beyond its prefix');
unlike($log, qr/\Q$beta\E/, 'nor another');

# One user who comes from the identity provider in many sessions at once
my $sync = PostgreSQL::Test::Utils::tempdir() . '/sync.sql';
append_to_file($sync, q{SELECT shortener.sync_user('idp|' || n, n || '@x.example') FROM (SELECT (extract(epoch FROM clock_timestamp()) * 100)::bigint) now (n);});
IPC::Run::run([ 'pgbench', '-n', '-c', 16, '-j', 2, '-t', 400, '-h', $node->host, '-p', $node->port, '-f', $sync, 'postgres' ], '>', \$out, '2>', \$err);
unlike($err, qr/ERROR/, 'a user can be made by several sessions at once');
like($out, qr{actually processed: 6400/6400}, '... all of them');

$node->stop;
done_testing();
