# kill -9 at random moments under load: what was acknowledged is there after recovery, once. Clients keep what they were
# told in files of their own. This is the crash of a process, not a loss of power: the kernel's cache survives.
# CRASH_ROUNDS says how often, CRASH_SEED repeats the choices.
use strict;
use warnings;

use IPC::Open2;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $rounds = $ENV{CRASH_ROUNDS} // 16;
my $clients = 4;
my $seed = $ENV{CRASH_SEED} // time ^ $$;
note("CRASH_SEED=$seed");

my $node = PostgreSQL::Test::Cluster->new('crash');
$node->init;
$node->append_conf('postgresql.conf', <<'CONF');
restart_after_crash = on
fsync = off
checkpoint_timeout = 30s
max_wal_size = 32MB
min_wal_size = 32MB
CONF
$node->start;
$node->safe_psql('postgres', q{
	CREATE EXTENSION shortener CASCADE;
	CREATE EXTENSION amcheck;
	CALL shortener.install();
	SELECT shortener.create_workspace('flakes', code_style => 'snowflake'), shortener.create_workspace('counted', code_style => 'sequential');
	SELECT shortener.add_domain(w || '.example', w) FROM unnest('{default,flakes,counted}'::text[]) w});

my $dir = PostgreSQL::Test::Utils::tempdir();
my @workspaces = qw(default flakes counted);

# One client, until told to stop. It writes a line for what it was told: what, workspace, code, URL; and before each
# attempt to delete, because whether that happened can stay unknown.
sub client
{
	my ($number) = @_;
	srand $seed + $number;
	open(my $told, '>', "$dir/told.$number") or die "told: $!";
	$told->autoflush;
	my ($said, $say, $pid, $made);
	my @aliases;
	while (!-e "$dir/stop")
	{
		if (!$pid)
		{
			$pid = open2($said, $say, "exec psql -XAtq -d '" . $node->connstr('postgres') . "' 2>>$dir/errors.$number");
			$say->autoflush;
		}
		my $workspace = $workspaces[ rand @workspaces ];
		my $url = "https://client$number.example/" . ++$made;
		my $kind = rand;
		my ($what, $sql) = ('made');
		if ($kind < 0.3) { $sql = "SELECT shortener.shorten('$url', '$workspace'), '$url'" }
		elsif ($kind < 0.5)    # the same by all clients
		{
			my $shared = 'https://shared.example/' . int rand 300;
			$sql = "SELECT shortener.shorten('$shared', '$workspace'), '$shared'";
		}
		elsif ($kind < 0.65)
		{
			$sql = "SELECT short_code, url FROM shortener.shorten_many(ARRAY(SELECT '$url/' || i FROM generate_series(1, 20) i), '$workspace')";
		}
		elsif ($kind < 0.8)
		{
			$what = 'alias';
			$sql = "SELECT short_code, original_url FROM shortener.create_link('$url', alias => 'alias-$number-$made', workspace => '$workspace')";
			push @aliases, [ "alias-$number-$made", $workspace ];
		}
		elsif ($kind < 0.88 && @aliases)
		{
			(my $code, $workspace) = @{ splice @aliases, rand @aliases, 1 };
			print $told "deleting\t$workspace\t$code\t\n";
			$what = 'deleted';
			$sql = "SELECT '$code', '' WHERE shortener.delete_link('$code', '$workspace')";
		}
		elsif ($kind < 0.95)
		{
			$what = 'expired';
			$sql = "INSERT INTO shortener.link (workspace_id, short_code, original_url, redirect_status, expires_at)"
			  . " SELECT id, 'old-$number-$made', '$url', 302, now() - interval '1 day' FROM shortener.workspace WHERE slug = '$workspace'"
			  . ' RETURNING short_code, original_url';
		}
		else { $sql = "CALL shortener.cleanup_expired(batch_size => 10, older_than => '2 hours')" }

		local $SIG{PIPE} = 'IGNORE';
		print $say "$sql;\n\\echo end\n";
		my $there = 0;
		while (defined(my $line = <$said>))
		{
			last if $there = $line eq "end\n";
			chomp $line;
			my ($code, $of) = split /\|/, $line, 2;
			print $told "$what\t$workspace\t$code\t$of\n";
		}
		if (!$there)
		{
			close $_ for $said, $say;
			waitpid $pid, 0;
			undef $pid;
			sleep 0.05;
		}
	}
	if ($pid)
	{
		close $say;
		waitpid $pid, 0;
	}
	return;
}

my @children;
for my $number (1 .. $clients)
{
	my $pid = fork // die "fork: $!";
	if (!$pid)
	{
		eval { client($number); 1 } or print STDERR $@;
		POSIX::_exit(0);
	}
	push @children, $pid;
}
END { my $status = $?; kill 'KILL', @children; $? = $status; }

sub recoveries { return scalar(() = slurp_file($node->logfile) =~ /database system was not properly shut down/g); }

# Processes of the server: the postmaster itself, or one of its children.
srand $seed;
my %killed = (postmaster => 0, child => 0);
for my $round (1 .. $rounds)
{
	sleep 0.2 + rand 1.5;
	my ($postmaster) = slurp_file($node->data_dir . '/postmaster.pid') =~ /^(\d+)/;
	my @processes = split ' ', slurp_file("/proc/$postmaster/task/$postmaster/children");
	if (rand() < 0.3)
	{
		$node->kill9;
		# The others notice one after the other; only then the next one may start.
		for (my $end = time + 60; grep { kill 0, $_ } $postmaster, @processes;)
		{
			die 'processes of the dead server stay' if time > $end;
			sleep 0.01;
		}
		$node->start;
		$killed{postmaster}++;
	}
	else
	{
		# One that was ending anyway need not crash the server.
		my $before = recoveries();
		$killed{child} += kill 'KILL', $processes[ rand @processes ];
		for (my $end = time + 5; recoveries() == $before && time < $end;) { sleep 0.02 }
	}
	$node->poll_query_until('postgres', 'SELECT true') or die 'no recovery';
}
append_to_file("$dir/stop", '');
waitpid $_, 0 for @children;
@children = ();

my $crashes = recoveries();
cmp_ok($crashes, '>', $rounds / 2, "$crashes recoveries, $killed{postmaster} from the end of the postmaster");

# What the clients were told.
my $told = join '', map { slurp_file("$dir/told.$_") } 1 .. $clients;
append_to_file("$dir/told", $told);
$node->safe_psql('postgres', "CREATE TABLE told (what text, workspace text, code text COLLATE \"C\", url text); COPY told FROM '$dir/told'");
$node->safe_psql('postgres', q{
	CREATE TABLE present AS SELECT w.slug AS workspace, l.* FROM shortener.link l JOIN shortener.workspace w ON w.id = l.workspace_id;
	ANALYZE told; ANALYZE present});

sub count_is
{
	my ($sql, $expected, $name) = @_;
	is($node->safe_psql('postgres', $sql), $expected, $name);
	return;
}
my $made = $node->safe_psql('postgres', q{SELECT count(DISTINCT (workspace, code)) FROM told WHERE what IN ('made', 'alias')});
cmp_ok($made, '>', 20 * $rounds, "$made links were acknowledged");
count_is(q{
	SELECT count(*) FROM told t WHERE what IN ('made', 'alias')
	AND NOT EXISTS (SELECT FROM told d WHERE d.what = 'deleting' AND (d.workspace, d.code) = (t.workspace, t.code))
	AND NOT EXISTS (SELECT FROM present p WHERE (p.workspace, p.short_code, p.original_url) = (t.workspace, t.code, t.url) AND p.deleted_at IS NULL)},
	0, '... and none is lost');
count_is(q{SELECT count(*) FROM (SELECT FROM told WHERE what = 'made' GROUP BY workspace, url HAVING count(DISTINCT code) > 1) d}, 0, 'no URL was given two codes');
count_is(q{SELECT count(*) FROM (SELECT FROM told WHERE what IN ('made', 'alias', 'expired') GROUP BY workspace, code HAVING count(DISTINCT url) > 1) d},
	0, 'no code was given to two URLs');
count_is(q{SELECT count(*) FROM (SELECT FROM present WHERE deleted_at IS NULL AND url_digest IS NOT NULL GROUP BY workspace, original_url HAVING count(*) > 1) d},
	0, 'no URL has two links');
count_is(q{SELECT count(*) FROM (SELECT FROM present GROUP BY workspace, short_code HAVING count(*) > 1) d}, 0, 'no code has two links');
count_is(q{
	SELECT count(*) FROM (SELECT workspace, array_agg(DISTINCT url) AS urls FROM told WHERE what = 'made' GROUP BY workspace) u,
		shortener.shorten_many(u.urls, u.workspace) s
	WHERE NOT EXISTS (SELECT FROM told t WHERE (t.workspace, t.url, t.code) = (u.workspace, s.url, s.short_code))},
	0, 'and shorten gives each its code again');

# What was deleted or reclaimed stays gone.
my $gone = q{FROM told t, shortener.resolve(t.code, t.workspace || '.example') r WHERE t.what =};
cmp_ok($node->safe_psql('postgres', "SELECT count(*) $gone 'deleted'"), '>', 0, 'links were deleted');
count_is("SELECT count(*) $gone 'deleted' AND r.http_status <> 410", 0, '... and all are gone');
$node->safe_psql('postgres', q{CALL shortener.cleanup_expired(older_than => '2 hours')});
cmp_ok($node->safe_psql('postgres', "SELECT count(*) $gone 'expired'"), '>', 0, 'links expired');
count_is("SELECT count(*) $gone 'expired' AND r.http_status <> 410", 0, '... and all are gone');
count_is(q{SELECT count(*) FROM told t JOIN shortener.link l ON l.short_code = t.code WHERE t.what = 'expired'}, 0, '... and reclaimed');
my ($workspace, $code) = split /\|/, $node->safe_psql('postgres', q{SELECT workspace, code FROM told WHERE what = 'expired' LIMIT 1});
my (undef, undef, $error) = $node->psql('postgres', "SELECT shortener.create_link('https://example.com/', alias => '$code', workspace => '$workspace')");
like($error, qr/ERROR/, '... for good');

count_is(q{
	SELECT count(bt_index_check(i.indexrelid, true)) > 5 FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
	WHERE c.relnamespace = 'shortener'::regnamespace AND c.relkind = 'i' AND c.relam = (SELECT oid FROM pg_am WHERE amname = 'btree')}, 't', 'every index has every row');
my @errors = map { split /\n/, slurp_file("$dir/errors.$_") } 1 .. $clients;
is(join("\n", grep { /ERROR/ && !/terminating|recovery|starting up|shutting down/ } @errors), '', 'no client saw another error than the loss of its server');

$node->stop;
done_testing();
