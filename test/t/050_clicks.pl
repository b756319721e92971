# Clicks in whole clusters: exact counters through crashes, nothing personal on disk, restore, standby, hostile schemas.
use strict;
use warnings;

use File::Find;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $seconds = $ENV{CLICK_SECONDS} // 20;
my $writers = 10;
my $batch_size = 50;

my $node = PostgreSQL::Test::Cluster->new('clicks');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', "max_connections = 50\nrestart_after_crash = on\nautovacuum_naptime = 1s\nlog_statement = none");
$node->start;

sub sql { return $node->safe_psql('postgres', $_[0]) }

sql(q{CREATE SCHEMA "distinct counts"; CREATE EXTENSION hll SCHEMA "distinct counts"; CREATE EXTENSION shortener; CALL shortener.install();
	SELECT shortener.create_link('https://example.com/' || i || '?utm_source=s' || i, 'code-' || i) FROM generate_series(1, 20) i});

# Writers as the frontend is one: a batch is sent until it is acknowledged, and now and then once more.
my $dir = PostgreSQL::Test::Utils::tempdir();
my $connection = $node->connstr('postgres');
my $end = time + $seconds;

sub try_sql { my ($statement) = @_; return system(qq{psql -XAtq -v ON_ERROR_STOP=1 -d "$connection" -c "$statement" >/dev/null 2>&1}) == 0; }

my @children;
for my $writer (1 .. $writers)
{
	my $pid = fork // die "fork: $!";
	if ($pid)
	{
		push @children, $pid;
		next;
	}
	srand($writer);
	my $acknowledged = 0;
	for (my $batch = 1; time < $end; $batch++)
	{
		my $statement = sprintf(q{SELECT shortener.record_clicks('%08d-0000-0000-0000-%012d', array_agg(l.id), array_agg(now() - i * interval '1 minute'),
			array_agg('198.51.100.0'::inet + i), array_agg('agent ' || i %% 7), array_agg('https://site-' || i %% 5 || '.example/'))
			FROM generate_series(1, %d) i JOIN shortener.link l ON l.short_code = 'code-' || 1 + (i * %d) %% 20}, $writer, $batch, $batch_size, $batch) =~ s/\s+/ /gr;
		sleep 0.05 until try_sql($statement);
		$acknowledged++;
		try_sql($statement) if rand() < 0.3;
	}
	open(my $file, '>', "$dir/$writer") or POSIX::_exit(1);
	print $file $acknowledged;
	close $file;
	POSIX::_exit(0);
}
{
	my $pid = fork // die "fork: $!";
	if (!$pid)
	{
		while (time < $end)
		{
			try_sql('CALL shortener.rollup_clicks(batch_size => 5)');
			sleep 1;
		}
		POSIX::_exit(0);
	}
	push @children, $pid;
}

my $kills = 0;
while (time < $end - 2)
{
	sleep 1 + rand 2;
	my ($status, $pid) = $node->psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND query ~ 'record_clicks|rollup'
		ORDER BY query ~ 'rollup' AND random() < 0.5 DESC, random() LIMIT 1});
	$kills += kill 'KILL', $pid if defined $status && $status == 0 && $pid;
}
waitpid($_, 0) for @children;
ok($node->poll_query_until('postgres', 'SELECT true'), 'the server is there');
my $acknowledged = 0;
for my $writer (1 .. $writers)
{
	$acknowledged += slurp_file("$dir/$writer");
}
note("$acknowledged batches of $batch_size, $kills kills");
cmp_ok($kills, '>', 0, 'backends were killed');
cmp_ok($acknowledged, '>', $writers, 'batches were acknowledged');
sql('CALL shortener.rollup_clicks()');
is(sql('SELECT count(*) FROM shortener.click_event'), $acknowledged * $batch_size, 'every acknowledged batch is stored, and stored once');
is(sql('SELECT sum(clicks) FROM shortener.click_total'), $acknowledged * $batch_size, 'and counted once');
is(sql('SELECT count(*) FROM shortener.click_pending'), 0, 'none is pending');
is(sql('SELECT count(*) FROM shortener.verify_rollups()'), 0, 'all counters are equal to the raw clicks');
is(sql(q{SELECT sum(clicks) FROM shortener.click_breakdown(NULL, 'utm_source', max_rows => NULL) WHERE value IS NOT NULL}), $acknowledged * $batch_size, 'campaigns too');

# A rollup meets an open transaction of a writer, and another rollup.
my $writer = $node->background_psql('postgres');
my $record = "SELECT shortener.record_clicks(gen_random_uuid(), ARRAY[id], ARRAY[now()]) FROM shortener.link WHERE short_code = 'code-1'";
$writer->query_safe("BEGIN; $record");
sql($record);
my @rollups = map {
	local $ENV{PGOPTIONS} = '-c default_transaction_isolation=serializable';
	IPC::Run::start([ 'psql', '-XAtq', '-d', $connection, '-v', 'ON_ERROR_STOP=1', '-c', 'CALL shortener.rollup_clicks()' ])
} 1 .. 3;
is(scalar(grep { $_->finish } @rollups), 3, 'three rollups at once end well, also where transactions are serializable by default');
is(sql('SELECT sum(clicks) FROM shortener.click_total'), $acknowledged * $batch_size + 1, 'a rollup counts what is committed');
$writer->query_safe('COMMIT');
$writer->quit;
sql('CALL shortener.rollup_clicks()');
is(sql('SELECT sum(clicks) FROM shortener.click_total'), $acknowledged * $batch_size + 2, 'and the next one what was open then');

# The same batch at the same time
my $first = $node->background_psql('postgres');
my $same = "SELECT shortener.record_clicks('ffffffff-0000-0000-0000-000000000000', ARRAY[id], ARRAY[now()]) FROM shortener.link WHERE short_code = 'code-1'";
is($first->query_safe("BEGIN; $same"), 1, 'a batch');
my $second = IPC::Run::start([ 'psql', '-XAtq', '-d', $connection, '-c', $same ], '>', \my $answer);
$node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock'}) or die 'the second did not wait';
$first->query_safe('COMMIT');
$first->quit;
$second->finish;
is($answer, "0\n", 'sent again before it is committed, it waits, and counts once');

# Batches that are the first of the same days, in whatever order
my $days = sub { my $times = join ',', map { "now() - interval '$_ days'" } @_; return "SELECT shortener.record_clicks(gen_random_uuid(), array_fill(id, '{${\scalar @_}}'), ARRAY[$times]) FROM shortener.link WHERE short_code = 'code-1'"; };
$first = $node->background_psql('postgres');
$first->query_safe('BEGIN; ' . $days->(9));
$second = IPC::Run::start([ 'psql', '-XAtq', '-d', $connection, '-v', 'ON_ERROR_STOP=1', '-c', $days->(8, 9) ], '>', \$answer);
$node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock'}) or die 'the second did not wait';
$first->query($days->(8));
is($first->query_safe('COMMIT; SELECT 1'), 1, 'a batch of days that another one waits for');
$first->quit;
ok($second->finish, '... and the other one');

# A batch that is recorded while purge_clicks is at work is purged as a whole, or not at all.
my ($old_partition) = split /\|/, sql("SELECT partition FROM shortener.month_partitions('click_event') LIMIT 1");
my $blocker = $node->background_psql('postgres');
$blocker->query_safe("BEGIN; LOCK TABLE shortener.$old_partition IN SHARE MODE");
my $purge = IPC::Run::start([ 'psql', '-XAtq', '-d', $connection, '-v', 'ON_ERROR_STOP=1', '-c', "SELECT shortener.purge_clicks('code-3')" ], '>', \$answer);
$node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query ~ 'purge_clicks'}) or die 'it did not wait';
sql($record =~ s/code-1/code-3/r);
$blocker->query_safe('COMMIT');
$blocker->quit;
ok($purge->finish, 'purge_clicks beside record_clicks');
sql('CALL shortener.rollup_clicks()');
is(sql(q{SELECT count(*) FROM shortener.click_event e JOIN shortener.link l ON l.id = e.link_id AND l.short_code = 'code-3'}),
	sql(q{SELECT clicks FROM shortener.link_totals WHERE short_code = 'code-3'}), '... leaves raw clicks and counters equal');

# Nothing personal: neither tables nor WAL nor logs nor temporary files have an address.
my $address = '203.0.113.187';
my $address6 = '2001:db8:cafe:1:a:b:c:d';
my ($bytes, $bytes6) = (pack('C4', 203, 0, 113, 187), pack('n8', 0x2001, 0xdb8, 0xcafe, 1, 0xa, 0xb, 0xc, 0xd));
my $personal = "SELECT shortener.record_clicks(gen_random_uuid(), array_agg(l.id), array_agg(now()), array_agg(a::inet), array_agg('agent'::text), array_agg('https://site.example/path-of-a-person?q=1'::text))
	FROM shortener.link l, unnest(string_to_array(:'ips', ',')) a WHERE short_code = 'code-2'";
is($node->safe_psql('postgres', $personal, extra_params => [ '-v', "ips=$address,$address6,192.0.2.254" ]), 3, 'clicks from known addresses');
$node->psql('postgres', $personal =~ s/now\(\)/now() + interval '1 hour'/r, extra_params => [ '-v', "ips=$address" ]);
$node->psql('postgres', $personal =~ s/array_agg\(l.id\)/'{1,2,3,4,5}'/r, extra_params => [ '-v', "ips=$address" ]) ;
sql('CALL shortener.rollup_clicks(); CHECKPOINT');
is(sql(q{SELECT string_agg(DISTINCT host(ip), ' ') FROM shortener.click_event WHERE link_id = (SELECT id FROM shortener.link WHERE short_code = 'code-2') AND ip << '203.0.0.0/8'}),
	'203.0.113.0', 'what is stored of one');

sub files_with
{
	my (@needles) = @_;
	my @found;
	find({ no_chdir => 1, wanted => sub {
		return unless -f $_;
		my $content = slurp_file($_);
		push @found, $_ if grep { index($content, $_) >= 0 } @needles;
	} }, $node->data_dir);
	return @found;
}
is_deeply([ files_with($address, $address6, $bytes, $bytes6, 'path-of-a-person') ], [], 'no file of the data directory has an address, WAL included');
ok(scalar(files_with('site.example')), 'though such a search finds what is stored');
my @log = grep { index($_, $address) >= 0 || index($_, $address6) >= 0 } split /\n/, slurp_file($node->logfile);
# An error of a statement that has addresses as literals is logged with the statement, by default; see docs/clicks.md.
is_deeply([ grep { !/STATEMENT:|^\t/ } @log ], [], 'no message of ours has one');

# Dump and restore: what is pending stays pending, and is counted once.
sql($record) for 1 .. 3;
my $series = q{SELECT string_agg(s::text, '|') FROM shortener.click_series(NULL, 'hour') s};
$node->command_ok([ 'pg_dump', '-Fc', '-f', "$dir/dump", '-d', $connection ], 'pg_dump');
sql('CREATE DATABASE restored TEMPLATE template0');
$node->command_ok([ 'pg_restore', '-e', '-d', $node->connstr('restored'), "$dir/dump" ], 'pg_restore');
is($node->safe_psql('restored', $series), sql($series), 'counters are restored');
for my $database ('postgres', 'restored')
{
	$node->safe_psql($database, 'CALL shortener.rollup_clicks()');
	is($node->safe_psql($database, 'SELECT sum(clicks) FROM shortener.click_total'), sql('SELECT count(*) FROM shortener.click_event'), "$database: pending clicks are counted, once");
	is($node->safe_psql($database, 'SELECT count(*) FROM shortener.verify_rollups()'), 0, "$database: exactly");
}

# DROP EXTENSION ... CASCADE keeps clicks and counters.
my $before = sql($series);
sql('SET client_min_messages = warning; DROP EXTENSION shortener CASCADE; CREATE EXTENSION shortener; CALL shortener.install()');
is(sql($series), $before, 'clicks survive DROP EXTENSION ... CASCADE');

# A standby has the counters, and does nothing.
$node->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->start;
sql($record);
sql('CALL shortener.rollup_clicks()');
$node->wait_for_catchup($standby);
is($standby->safe_psql('postgres', $series), sql($series), 'a standby has the counters');
for my $procedure ('rollup_clicks', 'maintain_clicks')
{
	my (undef, undef, $error) = $standby->psql('postgres', "CALL shortener.$procedure()");
	like($error, qr/NOTICE:  nothing to do on a standby/, "$procedure does nothing there");
}
is_deeply([ glob($standby->data_dir . '/base/*/' . sql(q{SELECT relfilenode FROM pg_class WHERE oid = 'shortener.click_salt'::regclass})) ], [], 'a standby has no salt');
$standby->stop;

# Upkeep waits for nobody for long.
my $reader = $node->background_psql('postgres');
$reader->query_safe('BEGIN; SELECT count(*) FROM shortener.click_event');
my ($status, undef, $error) = $node->psql('postgres', "CALL shortener.maintain_clicks(keep_events => '2 months')");
is($status, 0, 'upkeep beside a long transaction');
like($error, qr/left to the next run/, 'says what it has left');
$reader->query_safe('COMMIT');
$reader->quit;
sql("CALL shortener.maintain_clicks(keep_events => '2 months')");
is(sql("SELECT count(*) FROM shortener.month_partitions('click_event')"), 6, 'and does it the next time');

# A rollup that waits for upkeep, which moves days to their months, does not stand in the way of what upkeep does then.
my ($partition, $month) = split /\|/, sql("SELECT partition, month FROM shortener.month_partitions('click_day') LIMIT 1");
my $upkeep = $node->background_psql('postgres');
$upkeep->query_safe('BEGIN; SELECT FROM shortener.click_rollup FOR UPDATE');
my $rollup = IPC::Run::start([ 'psql', '-XAtq', '-d', $connection, '-v', 'ON_ERROR_STOP=1', '-c', 'CALL shortener.rollup_clicks()' ]);
$node->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query ~ 'rollup_clicks'}) or die 'the rollup did not wait';
$before = sql("SELECT sum(clicks) FROM shortener.click_series(NULL, 'month')");
$upkeep->query("SELECT shortener.drop_click_partition('click_day', '$partition', '$month'); COMMIT");
$upkeep->quit;
ok($rollup->finish, 'a rollup beside upkeep');
is(sql("SELECT count(*) FROM shortener.month_partitions('click_day') WHERE partition = '$partition'"), 0, '... does not keep it from dropping a partition');
is(sql("SELECT sum(clicks) FROM shortener.click_series(NULL, 'month')"), $before, '... whose clicks are counted');
sql('CALL shortener.maintain_clicks()');

# What a caller puts in front changes nothing.
sql(q{CREATE SCHEMA evil; GRANT USAGE ON SCHEMA evil TO PUBLIC;
	CREATE FUNCTION evil.fail(int, int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE 'evil ran'; END $$;
	CREATE OPERATOR evil.< (LEFTARG = int, RIGHTARG = int, FUNCTION = evil.fail);
	CREATE FUNCTION evil.now() RETURNS timestamptz LANGUAGE plpgsql AS $$ BEGIN RAISE 'evil ran'; END $$;
	CREATE FUNCTION evil.unnest(anyarray) RETURNS SETOF int LANGUAGE plpgsql AS $$ BEGIN RAISE 'evil ran'; END $$});
my $evil = 'SET search_path = evil, pg_catalog; CREATE TEMP TABLE click_pending (x int); CREATE TEMP TABLE click_salt (day date, salt bytea);';
for my $call ($record, 'CALL shortener.rollup_clicks()', 'CALL shortener.maintain_clicks()', "SELECT * FROM shortener.click_series('code-1')",
	'SELECT * FROM shortener.verify_rollups()')
{
	my ($failed, undef, $message) = $node->psql('postgres', "$evil\n$call" =~ s/now\(\)/pg_catalog.now()/r, on_error_stop => 1);
	is($failed, 0, "$call: " . ($message =~ /ERROR:\s+(.*)/ ? $1 : 'search_path does not matter'));
}

# A superuser does not run what the owner of the tables added to them.
$node->safe_psql('postgres', q{CREATE DATABASE theirs; CREATE ROLE theirs LOGIN; CREATE ROLE third LOGIN});
$node->safe_psql('theirs', q{CREATE EXTENSION shortener CASCADE; GRANT USAGE, CREATE ON SCHEMA shortener TO theirs;
	GRANT EXECUTE ON ALL ROUTINES IN SCHEMA shortener TO theirs WITH GRANT OPTION; GRANT USAGE ON SCHEMA shortener TO third});
my @theirs = (extra_params => [ '-U', 'theirs' ]);
$node->safe_psql('theirs', 'CALL shortener.install()', @theirs);
$node->safe_psql('theirs', "SELECT shortener.create_link('https://example.com/', 'code-1'); $record", @theirs);
$node->safe_psql('theirs', 'CALL shortener.rollup_clicks()', @theirs);
$node->safe_psql('theirs', 'CALL shortener.maintain_clicks()', @theirs);
is($node->safe_psql('theirs', q{SELECT clicks FROM shortener.link_totals}, @theirs), 1, 'an owner of the tables needs to be no superuser');
for my $procedure ('rollup_clicks', 'maintain_clicks')
{
	my ($failed, undef, $message) = $node->psql('theirs', "CALL shortener.$procedure()");
	like($message, qr/must be the owner of the tables/, "$procedure: a superuser leaves it to the owner");
}
$node->safe_psql('theirs', q{GRANT INSERT, TRIGGER ON shortener.click_total, shortener.click_salt TO third; }, @theirs);
$node->safe_psql('theirs', 'CREATE SCHEMA third AUTHORIZATION third');
$node->safe_psql('theirs', q{CREATE FUNCTION third.spy() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'ran as %', current_user; END $$;
	CREATE TRIGGER spy BEFORE INSERT ON shortener.click_total FOR EACH ROW EXECUTE FUNCTION third.spy();
	CREATE TRIGGER spy BEFORE INSERT ON shortener.click_salt FOR EACH ROW EXECUTE FUNCTION third.spy()}, extra_params => [ '-U', 'third' ]);
$node->safe_psql('theirs', 'TRUNCATE shortener.click_salt', @theirs);
(undef, undef, $error) = $node->psql('theirs', $record, @theirs);
like($error, qr/must not have trigger "spy"/, 'record_clicks runs no trigger of another role as the owner');
$node->safe_psql('theirs', 'DROP TRIGGER spy ON shortener.click_salt', @theirs);
$node->safe_psql('theirs', $record, @theirs);
(undef, undef, $error) = $node->psql('theirs', 'CALL shortener.rollup_clicks()', @theirs);
like($error, qr/calls a function of role "third"/, 'nor does rollup_clicks');

$node->stop;
done_testing();
