# Jobs in pg_cron on Debian's default pg_hba.conf: who they run as, what prevents them, what shows it.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('jobs');
$node->init;
$node->append_conf('postgresql.conf', <<'CONF');
shared_preload_libraries = 'pg_cron'
cron.database_name = 'app'
listen_addresses = '127.0.0.1'
CONF
# As pg_createcluster writes it.
unlink $node->data_dir . '/pg_hba.conf';
$node->append_conf('pg_hba.conf', <<'CONF');
local   all             postgres                                peer
local   all             all                                     peer
host    all             all             127.0.0.1/32            scram-sha-256
host    all             all             ::1/128                 scram-sha-256
CONF
$node->start;
my $superuser = $node->safe_psql('postgres', 'SELECT current_user');

sub sql { my ($sql, $database) = @_; return $node->safe_psql($database // 'app', $sql); }
sub error { my ($sql, $database) = @_; my (undef, undef, $error) = $node->psql($database // 'app', $sql); return $error; }

# The tables belong to a role that is no superuser; another database to one that means harm.
sql(q{
	CREATE ROLE owner LOGIN;
	CREATE ROLE group_role;
	CREATE ROLE villain LOGIN;
	CREATE DATABASE app;
	CREATE DATABASE trap OWNER villain}, 'postgres');
sql(q{
	CREATE EXTENSION pg_cron;
	CREATE EXTENSION shortener CASCADE;
	GRANT USAGE, CREATE ON SCHEMA shortener TO owner;
	GRANT EXECUTE ON ALL ROUTINES IN SCHEMA shortener TO owner;
	SET SESSION AUTHORIZATION owner;
	CALL shortener.install()});

# A schema like that of pg_cron, prepared for a superuser who comes by.
sql(q{
	CREATE EXTENSION shortener CASCADE;
	SET SESSION AUTHORIZATION villain;
	CREATE SCHEMA cron;
	CREATE FUNCTION cron.seize() RETURNS text LANGUAGE plpgsql AS 'BEGIN EXECUTE ''ALTER ROLE villain SUPERUSER''; RETURN ''''; END';
	CREATE VIEW cron.job AS SELECT 1::bigint AS jobid, '' AS schedule, '' AS command, '' AS database, '' AS username, true AS active,
		cron.seize() AS jobname;
	CREATE VIEW cron.job_run_details AS SELECT 1::bigint AS jobid, 1::bigint AS runid, now() AS start_time, now() AS end_time,
		1 AS job_pid, cron.seize() AS status, '' AS return_message;
	CREATE FUNCTION cron.schedule(text, text, text) RETURNS bigint LANGUAGE sql RETURN length(cron.seize());
	CREATE FUNCTION cron.unschedule(bigint) RETURNS boolean LANGUAGE sql RETURN length(cron.seize()) > 0}, 'trap');
like(error('SELECT shortener.schedule_jobs()', 'trap'), qr/pg_cron is installed in another database, "app"/, 'schedule_jobs asks pg_cron itself');
like(error('SELECT shortener.unschedule_jobs()', 'trap'), qr/pg_cron is installed in another database, "app"/, 'so does unschedule_jobs');
unlike(error('SELECT shortener.unschedule_jobs()', 'trap'), qr/(?<!un)schedule_jobs/, 'whose hint does not have it scheduled');
like(error('CALL shortener.purge_job_history()', 'trap'), qr/pg_cron is installed in another database/, 'and purge_job_history');
is(sql('SELECT count(*) FROM shortener.scheduled_jobs', 'trap'), 0, 'and scheduled_jobs');
is(sql(q{SELECT rolsuper FROM pg_roles WHERE rolname = 'villain'}), 'f', 'the function of the villain did not run as a superuser');

# Who the jobs run as.
my $jobs = sql('SELECT count(*) FROM shortener.job_definitions()');
my $warning = error(q{SELECT shortener.schedule_jobs(cleanup => '* * * * *')});
is(sql(q{SELECT jobname, username, database FROM cron.job WHERE jobname ~ 'cleanup|purge history' ORDER BY 1}),
	"shortener cleanup (app)|owner|app\nshortener purge history (app)|$superuser|app", 'what a superuser schedules runs as the owner of the tables');
like($warning, qr/WARNING:  pg_cron may be unable to log in as role "owner".*scram-sha-256.*HINT:  Set cron.use_background_workers = on/s,
	'a warning that pg_cron needs a password');
sql(q{GRANT USAGE ON SCHEMA cron TO owner; SET SESSION AUTHORIZATION owner; SELECT shortener.schedule_jobs(cleanup => '* * * * *')});
is(sql(q{SELECT count(*) FROM cron.job WHERE jobname = 'shortener cleanup (app)'}), 1, 'the owner schedules the same job');
like(error(q{SET SESSION AUTHORIZATION owner; SELECT shortener.schedule_jobs(cleanup => '* * * * *')}),
	qr/NOTICE:  could not check whether pg_cron can log in as role "owner"/, 'and learns that it could not be checked');
sql(q{SELECT shortener.unschedule_jobs()});
is(sql('SELECT count(*) FROM cron.job'), 0, 'a superuser removes the jobs of all');
like(error(q{SELECT shortener.schedule_jobs(username => current_user)}),
	qr/jobs in database "app" must not run as superuser.*username => 'owner'/s, 'no job runs as a superuser on tables of another role');
like(error(q{SELECT shortener.schedule_jobs(database => 'trap')}),
	qr/jobs in database "trap" must not run as superuser.*username => 'villain'/s, 'nor in a database of another role');
is(sql(q{SELECT count(*) FROM shortener.schedule_jobs(database => 'trap', username => 'villain')}), $jobs, 'but as that role');
is(sql(q{SELECT shortener.unschedule_jobs('trap')}), $jobs, 'whose jobs end with unschedule_jobs');
my @long = map { 'd' x 50 . $_ } 1, 2;
$node->safe_psql('postgres', "CREATE DATABASE $_") for @long;
sql("SELECT shortener.schedule_jobs(database => '$_', username => '$superuser')") for @long;
is(sql(q{SELECT string_agg(DISTINCT database, ' ' ORDER BY database) FROM cron.job WHERE database LIKE 'dd%'}), "@long", 'databases whose names begin alike have each their own jobs');
is(sql("SELECT shortener.unschedule_jobs('$long[0]')"), $jobs, '... which one loses alone');
is(sql("SELECT shortener.unschedule_jobs('$long[1]')"), $jobs, '... then the other');
like(error(q{SELECT shortener.schedule_jobs(username => 'group_role')}), qr/not permitted to log in.*ALTER ROLE group_role LOGIN/s, 'a role that cannot log in');
like(error(q{SELECT shortener.schedule_jobs(username => 'nobody')}), qr/role "nobody" does not exist/, 'a role that is not there');
like(error(q{SELECT shortener.schedule_jobs(database => 'nothing')}), qr/database "nothing" does not exist/, 'a database that is not there');
like(error(q{SELECT shortener.schedule_jobs(schedules => '{"cleenup": "* * * * *"}')}), qr/job "cleenup" does not exist.*The jobs are: cleanup/s, 'a job that is not there');

# What pg_hba.conf says is what the warning goes by.
sub warns
{
	my ($line, $database, $role) = @_;
	my $file = $node->data_dir . '/pg_hba.conf';
	my $before = slurp_file($file);
	unlink $file;
	$node->append_conf('pg_hba.conf', "$line\n$before");
	my $said = error("SELECT shortener.check_cron_login('$database', '$role')");
	unlink $file;
	$node->append_conf('pg_hba.conf', $before);
	return $said =~ /WARNING/ ? 1 : 0;
}
my $everybody = 'host all all 127.0.0.1/32 trust';
is(warns("$everybody\nhost all all ::1/128 trust", 'app', 'owner'), 0, 'no warning where everybody may come in');
is(warns($everybody, 'app', 'owner'), 1, 'but where only one of two addresses may');
is(warns('host all all localhost trust', 'app', 'owner'), 0, 'a host by name');
is(warns('host app +group_role samehost trust', 'app', 'owner'), 1, 'a group of others');
is(warns('host other owner all trust', 'app', 'owner'), 1, 'a line for another database');
is(warns('host other,app owner all trust', 'app', 'owner'), 0, 'for two');
is(warns('host sameuser all all trust', 'owner', 'owner'), 0, 'for the one of the same name');

# A run that failed to log in shows, and the query that the documentation advises finds it.
my ($alert) = slurp_file('docs/operations.md') =~ /```sql\n(SELECT name, last_status[^`]*)```/ or die 'no alert in docs/operations.md';
sql(q{SELECT shortener.schedule_jobs(cleanup => '* * * * *')});
is(sql($alert), '', 'no alert before the first run');
ok($node->poll_query_until('app', q{SELECT count(*) = 1 FROM shortener.scheduled_jobs WHERE name LIKE '%cleanup%' AND last_status = 'failed' AND last_message <> ''}),
	'scheduled_jobs shows the failure and its text');
like(sql($alert), qr/^shortener cleanup \(app\)\|failed\|connection failed/, 'the advised alert fires');

# With what the warning advises.
sql('SELECT shortener.unschedule_jobs()');
$node->append_conf('postgresql.conf', 'cron.use_background_workers = on');
$node->restart;
is(error(q{SELECT shortener.schedule_jobs(cleanup => '* * * * *')}), '', 'no warning with background workers');
sql(q{INSERT INTO shortener.link (workspace_id, short_code, original_url, redirect_status, expires_at)
	SELECT id, 'old', 'https://example.com/', 302, now() - interval '40 days' FROM shortener.workspace});
ok($node->poll_query_until('app', q{SELECT count(*) = 1 FROM shortener.scheduled_jobs WHERE name LIKE '%cleanup%' AND last_status = 'succeeded' AND last_success > now() - interval '1 minute'}),
	'the cleanup runs');
is(sql(q{SELECT count(*) FROM shortener.link WHERE short_code = 'old'}), 0, 'and works');
is(sql($alert), '', 'the alert is over');
sql(q{SELECT shortener.schedule_jobs()});

# What goes from the history: what ended, what died, what never began; not what runs.
my $running = $node->background_psql('app');
my $pid = $running->query_safe('SELECT pg_backend_pid()');
sql(qq{
	DELETE FROM cron.job_run_details;
	INSERT INTO cron.job_run_details (jobid, runid, status, job_pid, start_time, end_time)
	SELECT jobid, v.* FROM cron.job, (VALUES
		(1, 'failed', NULL::int, NULL::timestamptz, NULL::timestamptz),
		(2, 'succeeded', 1, now() - interval '8 days', now() - interval '8 days'),
		(3, 'running', 2147483647, now() - interval '8 days', NULL),
		(4, 'running', 2147483647, now() - interval '6 days', NULL),
		(5, 'failed', NULL, NULL, NULL),
		(6, 'succeeded', 1, now() - interval '8 days', now() - interval '6 days'),
		(7, 'running', $pid, now(), NULL)) v WHERE jobname = 'shortener cleanup (app)';
	INSERT INTO cron.job_run_details (jobid, runid, end_time) VALUES (1000000, 0, now() - interval '1 year');
	CALL shortener.purge_job_history()});
is(sql(q{SELECT string_agg(runid::text, ' ' ORDER BY runid) FROM cron.job_run_details}), '0 4 5 6 7', 'a week is kept, and what others ran');
sql(q{CALL shortener.purge_job_history('0')});
is(sql(q{SELECT string_agg(runid::text, ' ' ORDER BY runid) FROM cron.job_run_details}), '0 7', 'what runs is kept in any case');
$running->quit;

$node->stop;
done_testing();
