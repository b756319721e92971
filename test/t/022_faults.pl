# Faults: connections to the database killed, the whole database away or hung, the frontend stopped and killed in the
# middle of load. kill -9 is the crash of a process, not of a machine.
use strict;
use warnings;

use Frontend;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = database('faults');
sub value { return $node->safe_psql('postgres', $_[0]); }
value(q{SELECT count(shortener.create_link('https://to.example/' || c, alias => c)) FROM unnest('{cached,changed,expiring}'::text[]) c;
	SELECT count(shortener.create_link('https://to.example/n' || i, alias => 'n' || i)) FROM generate_series(1, 2000) i});
my $next = 0;
sub uncached { return '/n' . ++$next; } # a code that nobody has asked for

my $connstr = $node->connstr('postgres') . ' application_name=shortenerd';
my $frontend = Frontend->start(database => $connstr);
sub retry_after { my ($response) = @_; return $response->{fields}{'retry-after'}[0] // ''; }

# Asks for codes until all come from the cache.
sub cache
{
	my @codes = @_;
	return eventually {
		my @statuses;
		my $misses = $frontend->growth(sub { @statuses = map { $frontend->status("/$_") } @codes })->{cache_misses_total};
		!$misses && join(' ', @statuses) eq join(' ', (302) x @codes)
	};
}

# Backends of the frontend: all, those that read links, or the one that listens.
sub backends
{
	my ($which) = @_;
	my $condition = { all => 'true', reading => q{query LIKE '%resolve_many%' OR query LIKE '%page_texts%'},
		listening => q{NOT (query LIKE '%resolve_many%' OR query LIKE '%page_texts%')} }->{$which};
	return split /\n/, value("SELECT pid FROM pg_stat_activity WHERE application_name = 'shortenerd' AND ($condition)");
}
is(scalar(backends('all')), 3, 'a connection for each of two threads, and one that listens');

# The listening backend dies, and a change that nobody is told of happens meanwhile.
is($frontend->location('/changed'), 'https://to.example/changed', 'a cached link');
is($frontend->status('/cached'), 302, 'another');
my ($listener) = my @listeners = backends('listening');
is(scalar(@listeners), 1, 'one connection listens');
value("SET session_replication_role = replica; UPDATE shortener.link SET original_url = 'https://to.example/new' WHERE short_code = 'changed'");
is($frontend->location('/changed'), 'https://to.example/changed', 'a change that was not notified is not seen');
my $growth = $frontend->growth(sub {
	value("SELECT pg_terminate_backend($listener)");
	ok(eventually { $frontend->location('/changed') eq 'https://to.example/new' }, 'after the listening backend was killed it is seen');
});
cmp_ok($growth->{listen_reconnects_total}, '>=', 1, '... because listening began anew');
cmp_ok($growth->{cache_flushes_total}, '>=', 1, '... with an empty cache');
like($frontend->log, qr/warning: lost the connection that listens for changes/, '... which is logged');
ok($frontend->until_ready, 'it listens again');
value("SELECT shortener.update_link('changed', url => 'https://to.example/newer')");
ok(eventually { $frontend->location('/changed') eq 'https://to.example/newer' }, '... and hears');

# The reading backends die.
$frontend->get(uncached) for 1 .. 10;
ok(cache('cached'), 'a link is cached');
my @reading = backends('reading');
is(scalar(@reading), 2, 'two connections read');
value("SELECT pg_terminate_backend(pid) FROM unnest('{" . join(',', @reading) . "}'::int[]) pid");
is($frontend->status('/cached'), 302, 'cached links are served when the reading backends were killed');
ok($frontend->until_ready, 'they are replaced');
is($frontend->status(uncached), 302, '... and uncached links are served');

# The whole database is away for ten seconds.
$frontend->hear(sub { value(q{SELECT shortener.update_link('expiring', expires_at => now() + interval '5 seconds')}) });
ok(cache('cached', 'expiring'), 'two links are cached, one of which will expire');
$node->stop('immediate');
my $begin = time;
my $late = Frontend->start(database => $connstr, ready => 0);
my ($asked, $slow, $slowest, %cached, %other) = (0, 0, 0);
while (time - $begin < 10)
{
	$cached{ $frontend->status('/cached') // 'none' }++;
	my $sent = time;
	my $response = $frontend->get(uncached);
	my $took = time - $sent;
	$slowest = $took if $took > $slowest;
	$slow++ if $took > 1;
	$asked++;
	$other{ ($response->{status} // 'none') . ' ' . retry_after($response) }++;
	sleep 0.05;
}
is_deeply([ keys %cached ], ['302'], "without a database a cached link goes on working, asked $asked times");
is_deeply([ keys %other ], ['503 1'], '... an uncached one is 503 with Retry-After');
cmp_ok($slow, '<', $asked / 10, sprintf('... within a second (slowest %.3f s)', $slowest));
is($frontend->get(uncached, Accept => 'application/json')->{body}, qq({"status":503,"error":"unavailable"}\n), '... as JSON to who wants it');
is($frontend->status('/expiring'), 410, '... and a link that expired meanwhile is gone');
is($frontend->admin('/readyz')->{status}, 503, '... not ready');
is($frontend->admin('/healthz')->{status}, 200, '... but healthy');
is($late->admin('/healthz')->{status}, 200, 'started without a database it runs');
is($late->admin('/readyz')->{status}, 503, '... not ready');
my $response = $late->get('/cached');
is("$response->{status} " . retry_after($response), '503 1', '... answers 503');
is($late->status('/robots.txt'), 200, '... and what needs no database');
$node->start;
ok($frontend->until_ready, 'when the database is back, so is the frontend');
is($frontend->status(uncached), 302, '... with uncached links');
value("SELECT shortener.update_link('changed', url => 'https://to.example/newest')");
ok(eventually { $frontend->location('/changed') eq 'https://to.example/newest' }, '... and hears of changes');
ok($late->until_ready, 'so is the one that never had a database');
is($late->status('/cached'), 302, '... with links');
$late->stop;
my @lines = grep { /error: (no database|cannot listen)/ } split /\n/, $frontend->log;
cmp_ok(scalar(@lines), '>=', 1, 'the outage is logged');
cmp_ok(scalar(@lines), '<', 20, '... not at every attempt');

# A database that hangs: somebody holds a lock.
ok(cache('cached'), 'a link is cached');
my $holder = $node->background_psql('postgres');
$holder->query_safe('BEGIN; LOCK TABLE shortener.link IN ACCESS EXCLUSIVE MODE');
sub while_hung
{
	my ($what) = @_;
	my ($slowest, %other, %cached) = (0);
	for (1 .. 8)
	{
		my $sent = time;
		my $response = $frontend->get(uncached);
		my $took = time - $sent;
		$slowest = $took if $took > $slowest;
		$other{ ($response->{status} // 'none') . ' ' . retry_after($response) }++;
		$cached{ $frontend->status('/cached') }++;
	}
	is_deeply(\%other, { '503 1' => 8 }, "$what: uncached links are 503");
	cmp_ok($slowest, '<', 5, sprintf('... after the time-out of the database (slowest %.3f s)', $slowest));
	is_deeply(\%cached, { 302 => 8 }, '... cached ones are served');
	ok(eventually { $frontend->admin('/readyz')->{status} == 503 }, '... not ready');
	return;
}
while_hung('behind a lock');
$holder->query_safe('ROLLBACK');
$holder->quit;
ok($frontend->until_ready, 'when the lock is gone it is ready');
is($frontend->status(uncached), 302, '... and answers');

# The processes of the database are stopped, all of them.
ok(cache('cached'), 'a link is cached');
my ($postmaster) = slurp_file($node->data_dir . '/postmaster.pid') =~ /^(\d+)/;
my @stopped = ($postmaster, backends('all'));
kill 'STOP', @stopped;
while_hung('stopped processes');
kill 'CONT', @stopped;
ok($frontend->until_ready, 'when they go on it is ready');
is($frontend->status(uncached), 302, '... and answers');
$frontend->stop;

# SIGTERM under load: whatever has begun is answered, and the end comes in time.
$frontend = Frontend->start(database => $connstr, flags => [ '--database-timeout', '20s', '--shutdown-timeout', '20s' ]);
ok(cache('cached'), 'a link is cached');
$holder = $node->background_psql('postgres');
$holder->query_safe('BEGIN; LOCK TABLE shortener.link IN ACCESS EXCLUSIVE MODE');
my (@halves, @waiting, @idle);
for (1 .. 50)
{
	push @halves, $frontend->connect;
	$halves[-1]->send("GET /cached HTTP/1.1\r\nHo");
	push @waiting, $frontend->connect;
	$waiting[-1]->send(Frontend::Client::format_request('GET', uncached));
	push @idle, $frontend->connect;
	$idle[-1]->request('GET', '/cached');
}
ok(eventually { $frontend->metrics->{requests_in_flight} == 50 }, '50 requests wait for the database, 50 are half sent, 50 connections are idle');
# Load that goes on: each answer has to be whole.
my $loader = fork // die "fork: $!";
if ($loader == 0)
{
	my ($served, $broken) = (0, 0);
	my @clients = map { $frontend->connect } 1 .. 10;
	my $end = time + 30;
	while (@clients && time < $end)
	{
		for my $client (@clients)
		{
			my $answer = $client->request('GET', '/cached');
			if (($answer->{status} // 0) == 302) { $served++ }
			elsif (%$answer || $client->{buffer} ne '') { $broken++ }
		}
		@clients = grep { !$_->{ended} } @clients;
	}
	POSIX::_exit($broken ? 1 : @clients ? 2 : $served < 100 ? 3 : 0);
}
sleep 0.5;
$frontend->signal('TERM');
my $terminated = time;
ok(eventually { $frontend->log =~ /info: stopping/ }, 'SIGTERM is heard');
if (!crow())
{
	is(scalar(grep { $_->ends(10) } @idle), 50, 'idle connections are closed');
	ok(eventually { !IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $frontend->{port}) }, 'no new ones are accepted');
}
ok($frontend->alive, 'but it waits for what has begun');
if (!crow())
{
	$_->send("st: links.example\r\n\r\n") for @halves;
	is(scalar(grep { ($_->response->{status} // 0) == 302 && $_->ends(10) } @halves), 50, 'half sent requests are finished, answered and closed');
}
$holder->query_safe('ROLLBACK');
$holder->quit;
is(scalar(grep { ($_->response->{status} // 0) == 302 && $_->ends(10) } @waiting), 50, 'so are those that waited for the database');
is($frontend->wait_for_end(20), 0, 'and it ends well');
cmp_ok(time - $terminated, '<', 20, '... in time');
waitpid $loader, 0;
is($?, 0, 'load that went on saw whole answers until the end');

# Those who never finish are not waited for.
$frontend = Frontend->start(database => $connstr, flags => [ '--request-timeout', '60s', '--shutdown-timeout', '1s' ]);
my $never = $frontend->connect;
$never->send('GET /');
is($frontend->status('/cached'), 302, 'another request, so that the first has arrived');
$frontend->signal('TERM');
$begin = time;
is($frontend->wait_for_end(30), 0, 'a request that never ends is given up');
cmp_ok(time - $begin, '<', 10, '... after the shutdown time-out');
like($frontend->log, qr/warning: closing 1 connections? with requests under way/, '... which is logged') unless crow();

# Nor are those who ask and read no answer; clicks that wait are sent all the same.
$frontend = Frontend->start(database => $connstr, clicks => 1, flags => [ '--write-timeout', '60s', '--shutdown-timeout', '2s' ]);
is($frontend->status('/cached'), 302, 'a link, from now on in the cache');
my @deaf = map { $frontend->connect } 1 .. 4;
$_->{socket}->blocking(0) for @deaf;
my $asking = Frontend::Client::format_request('GET', '/nobody') x 100;
for (1 .. 100) { local $SIG{PIPE} = 'IGNORE'; syswrite $_->{socket}, $asking for @deaf; sleep 0.01 }
$holder = $node->background_psql('postgres');
$holder->query_safe('BEGIN; LOCK TABLE shortener.click_batch IN ACCESS EXCLUSIVE MODE');
$frontend->get('/cached') for 1 .. 10;
$frontend->signal('TERM');
ok(eventually { $frontend->log =~ /info: stopping/ }, 'clients that read no answer, and SIGTERM');
$holder->query_safe('ROLLBACK');
$holder->quit;
is($frontend->wait_for_end(20), 0, '... which ends it well');
is(value('SELECT count(*) FROM shortener.click_event'), 11, '... with all clicks recorded');
$_->close for @deaf;

# kill -9 in the middle of load, and a new start on the same port.
$frontend = Frontend->start(database => $connstr);
my $port = $frontend->{port};
$loader = fork // die "fork: $!";
if ($loader == 0)
{
	my $end = time + 30;
	my $phase = 0; # served, failed, served again
	my $served = 0;
	while ($phase < 3 && time < $end)
	{
		my $status = Frontend::Client->new($port)->request('GET', $served % 2 ? '/cached' : '/n' . ($served + 1))->{status} // 0;
		POSIX::_exit(1) unless $status == 302 || $status == 0 || $status == 503 || $served >= 2000;
		$served++ if $status == 302;
		$phase++, $served = 1 if $phase == 1 ? $status == 0 : $status == 302 && $served > 200;
	}
	POSIX::_exit($phase == 3 ? 0 : 2);
}
ok(eventually { $frontend->metrics->{'requests_total{status="302"}'} > 250 }, 'a client is served');
$frontend->signal('KILL');
is($frontend->wait_for_end, 9, 'killed in the middle of load');
sleep 0.3;
$frontend = Frontend->start(database => $connstr, port => $port);
waitpid $loader, 0;
is($?, 0, 'a client was served before it, and is again after a new start');
ok(eventually { backends('all') == 3 }, 'the connections of the killed one are gone');
$frontend->stop;
ok(eventually { backends('all') == 0 }, 'stopped, it leaves no connection behind');

$node->stop;
done_testing();
