# Expiry in whole clusters: pg_cron, a killed backend, concurrent revivals and cleanups, a standby.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

my $node = PostgreSQL::Test::Cluster->new('primary');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', "max_connections = 40\nautovacuum_naptime = 1s\nrestart_after_crash = on");
$node->start;
$node->safe_psql('postgres', 'CREATE DATABASE app');

sub sql { return $node->safe_psql('app', $_[0]) }

sub expired_links
{
	my ($count, $prefix) = @_;
	sql("INSERT INTO shortener.link (workspace_id, short_code, original_url, redirect_status, expires_at)
		SELECT w.id, '$prefix' || i, 'https://example.com/$prefix' || i, 302, now() - interval '40 days'
		FROM shortener.workspace w, generate_series(1, $count) i WHERE w.slug = 'default'");
	return;
}

sql('CREATE EXTENSION shortener CASCADE; CALL shortener.install()');

# Without pg_cron
my ($status, undef, $error) = $node->psql('app', 'SELECT shortener.schedule_jobs()');
isnt($status, 0, 'no jobs without pg_cron');
like($error, qr/pg_cron is not installed/, 'it says what is missing');
like($error, qr{crontab: \*/15 \* \* \* \*  psql -X -d app -c 'CALL shortener.cleanup_expired\(\)'}, 'and shows the crontab line');
like($error, qr{systemd timer: OnCalendar=}, 'and the systemd timer');
is(sql('SELECT count(*) FROM shortener.scheduled_jobs'), 0, 'the view is there all the same');

# Three cleanups at once share the work, also where transactions are serializable by default, and forget the same old
# runs; a link that is being revived is left alone.
expired_links(5000, 'shared-');
sql('INSERT INTO shortener.cleanup_run (started_at, finished_at, pid, backend_start) SELECT now(), now(), 0, now() FROM generate_series(1, 1100)');
my $holder = $node->background_psql('app');
$holder->query_safe('BEGIN; SELECT FROM shortener.cleanup_run WHERE id = 1 FOR UPDATE');
my $reviver = $node->background_psql('app');
$reviver->query_safe("BEGIN; UPDATE shortener.link SET expires_at = now() + interval '1 day' WHERE short_code IN ('shared-1', 'shared-4999')");
my @cleanups = map {
	local $ENV{PGOPTIONS} = '-c default_transaction_isolation=serializable';
	IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('app'), '-v', 'ON_ERROR_STOP=1', '-c', 'CALL shortener.cleanup_expired(batch_size => 100)' ])
} 1 .. 3;
ok($node->poll_query_until('app', q{SELECT count(*) = 3 FROM pg_stat_activity WHERE wait_event_type = 'Lock'}), 'three cleanups at once wait for one row');
$holder->query_safe('COMMIT');
$holder->quit;
is(scalar(grep { $_->finish } @cleanups), 3, 'and end well');
$reviver->query_safe('COMMIT');
$reviver->quit;
is(sql("SELECT string_agg(short_code, ' ' ORDER BY short_code) FROM shortener.link"), 'shared-1 shared-4999', 'just the revived links stay');
is(sql("SELECT count(*), count(DISTINCT short_code) FROM shortener.retired_code"), '4998|4998', 'all other codes are retired, each once');
is(sql('SELECT total_cleaned FROM shortener.cleanup_stats'), 4998, 'and counted once');
is(sql("SELECT http_status FROM shortener.resolve('shared-1')"), 302, 'a revived link redirects');

# A code goes from link to retired_code while somebody asks for it as an alias.
for my $isolation ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE')
{
	my $code = lc "race-$isolation" =~ s/ /-/r;
	expired_links(1, $code);
	my $remover = $node->background_psql('app');
	my $taker = $node->background_psql('app', on_error_stop => 0);
	$taker->query_safe("BEGIN ISOLATION LEVEL $isolation; SELECT count(*) FROM shortener.link");
	$remover->query_safe("BEGIN; DELETE FROM shortener.link WHERE short_code = '${code}1'");
	$taker->{stdin} .= "INSERT INTO shortener.link (workspace_id, short_code, original_url, redirect_status)
		SELECT id, '${code}1', 'https://example.com/taken', 302 FROM shortener.workspace WHERE slug = 'default';\n";
	$taker->{run}->pump_nb;
	$node->poll_query_until('app', q{SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock'})
	  or die 'the alias did not wait for the removal';
	$remover->query_safe('COMMIT');
	$remover->quit;
	$taker->{stdin} .= "COMMIT;\n\\q\n";
	$taker->{run}->finish;
	is(sql("SELECT count(*) FROM shortener.link WHERE short_code = '${code}1'"), 0, "$isolation: a code that is being retired is not given out again");
	is(sql("SELECT http_status FROM shortener.resolve('${code}1')"), 410, "$isolation: and stays gone");
}

# kill -9 in the middle
expired_links(20000, 'killed-');
my $victim = IPC::Run::start(
	[ 'psql', '-XAtq', '-d', $node->connstr('app'), '-c', 'CALL shortener.cleanup_expired(batch_size => 1)' ],
	'>', \my $out, '2>', \my $err);
$node->poll_query_until('app', "SELECT count(*) > 500 FROM shortener.retired_code WHERE short_code LIKE 'killed-%'") or die 'no cleanup';
my $pid = sql("SELECT pid FROM pg_stat_activity WHERE query LIKE 'CALL shortener.cleanup%' AND pid <> pg_backend_pid()");
is(sql('SELECT is_running FROM shortener.cleanup_stats'), 't', 'a run in progress shows');
kill 9, $pid or die "kill: $!";
$victim->finish;
$node->poll_query_until('app', 'SELECT true') or die 'no recovery after the crash';
my $removed = sql("SELECT count(*) FROM shortener.retired_code WHERE short_code LIKE 'killed-%'");
cmp_ok($removed, '<', 20000, 'the backend died in the middle');
is(sql("SELECT count(DISTINCT short_code) FROM (SELECT short_code FROM shortener.link UNION ALL SELECT short_code FROM shortener.retired_code) c
	WHERE short_code LIKE 'killed-%'"), 20000, 'each code is either still a link or retired');
is(sql("SELECT count(*) FROM shortener.link l JOIN shortener.retired_code r USING (workspace_id, short_code)"), 0, 'never both');
is(sql('SELECT is_running, failed_runs FROM shortener.cleanup_stats'), 'f|1', 'the dead run counts as failed');
sql('CALL shortener.cleanup_expired()');
is(sql("SELECT count(*) FROM shortener.link WHERE short_code LIKE 'killed-%'"), 0, 'the next run removes the rest');

# Autovacuum reclaims what the cleanup left.
ok($node->poll_query_until('app', "SELECT n_dead_tup = 0 AND autovacuum_count > 0 FROM pg_stat_user_tables WHERE relid = 'shortener.link'::regclass"),
	'autovacuum reclaims the dead rows');

# A standby
$node->backup('copy');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'copy', has_streaming => 1);
$standby->start;
sql("INSERT INTO shortener.link (workspace_id, short_code, original_url, redirect_status, expires_at)
	SELECT id, 'soon', 'https://example.com/soon', 302, now() + interval '3 seconds' FROM shortener.workspace WHERE slug = 'default'");
expired_links(1, 'standby-');
$node->wait_for_catchup($standby);
is($standby->safe_psql('app', "SELECT http_status FROM shortener.resolve('soon')"), 302, 'a standby redirects');
sleep(3.1);
is($standby->safe_psql('app', "SELECT http_status FROM shortener.resolve('soon')"), 410, 'until the moment of expiry');
(undef, undef, $error) = $standby->psql('app', 'CALL shortener.cleanup_expired()');
like($error, qr/NOTICE:  nothing to do on a standby/, 'the cleanup does nothing there');
is($standby->safe_psql('app', "SELECT count(*) FROM shortener.link WHERE short_code = 'standby-1'"), 1, 'nothing at all');
$standby->stop;

# pg_cron in another database of the server
$node->append_conf('postgresql.conf',
	"shared_preload_libraries = 'pg_cron'\ncron.database_name = 'postgres'\ncron.host = '" . $node->host . "'");
$node->restart;
($status, undef, $error) = $node->psql('app', 'SELECT shortener.schedule_jobs()');
like($error, qr/pg_cron is installed in another database, "postgres".*schedule_jobs\(database => 'app'\)/s, 'the hint says where to schedule');
$node->safe_psql('postgres', 'CREATE EXTENSION pg_cron; CREATE EXTENSION shortener CASCADE');
my $jobs = sql('SELECT count(*) FROM shortener.job_definitions()');
for (1, 2)
{
	$node->safe_psql('postgres', "SELECT shortener.schedule_jobs(cleanup => '* * * * *', database => 'app')");
}
is($node->safe_psql('postgres', q{SELECT jobname, database FROM cron.job WHERE jobname ~ 'cleanup|purge history' ORDER BY 1}),
	"shortener cleanup (app)|app\nshortener purge history (app)|postgres", 'scheduling twice schedules once, in the right database');
$node->safe_psql('postgres', "INSERT INTO cron.job_run_details (jobid, runid, status, end_time)
	SELECT jobid, 1000000 + jobid, 'succeeded', now() - interval '8 days' FROM cron.job");
$node->safe_psql('postgres', $node->safe_psql('postgres', "SELECT command FROM cron.job WHERE jobname LIKE '%history%'"));
is($node->safe_psql('postgres', 'SELECT count(*) FROM cron.job_run_details WHERE runid > 1000000'), 0, 'old run details are purged');
ok($node->poll_query_until('app', "SELECT count(*) = 1 FROM shortener.retired_code WHERE short_code = 'standby-1'"),
	'pg_cron runs the cleanup within its minute');
ok($node->poll_query_until('postgres',
	"SELECT last_status = 'succeeded' AND last_run > now() - interval '3 minutes' FROM shortener.scheduled_jobs WHERE name = 'shortener cleanup (app)'"),
	'the view shows the last run');
is($node->safe_psql('postgres', "SELECT shortener.unschedule_jobs('app')"), $jobs, 'unschedule_jobs takes them back');
is($node->safe_psql('postgres', 'SELECT count(*) FROM cron.job'), 0, 'all of them');

# One who is no superuser, for the database where pg_cron is; and names that end alike.
$node->safe_psql('postgres', q{CREATE ROLE operator LOGIN; GRANT USAGE ON SCHEMA cron, shortener TO operator;
	GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA shortener TO operator});
is($node->safe_psql('postgres', 'SELECT count(*) FROM shortener.schedule_jobs()', extra_params => [ '-U', 'operator' ]), $jobs, 'no superuser is needed');
is($node->safe_psql('postgres', 'SELECT shortener.unschedule_jobs()', extra_params => [ '-U', 'operator' ]), $jobs, 'nor to take them back');
$node->safe_psql('postgres', q{CREATE DATABASE "x (app)"});
$node->safe_psql('postgres', q{SELECT shortener.schedule_jobs(database => 'x (app)')});
is($node->safe_psql('postgres', q{SELECT shortener.unschedule_jobs('app)')}), 0, 'the jobs of another database stay');

$node->stop;
done_testing();
