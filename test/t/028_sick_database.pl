# A database that is slow, locked, restarted, behind or set up wrongly.
use strict;
use warnings;

use Frontend;
use IO::Socket::INET;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use SlowProxy;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = database('sick');
sub value { return $node->safe_psql('postgres', $_[0]); }
value(q{INSERT INTO shortener.link (workspace_id, short_code, original_url, redirect_status)
		SELECT 1, 'n' || i, 'https://to.example/n' || i, 302 FROM generate_series(1, 20000) i;
	SELECT count(shortener.create_link('https://to.example/' || c, alias => c)) FROM unnest('{cached,locked,late,edited}'::text[]) c});
my $next = 0;
sub uncached { return '/n' . ++$next; } # a code that nobody has asked for

# Asks for codes that are not cached, so many a second, each on a connection of its own; how often each status came.
sub load
{
	my ($frontend, $seconds, $rate) = @_;
	my %statuses;
	my $begin = time;
	my @waiting;
	for my $number (1 .. $seconds * $rate)
	{
		my $due = $begin + $number / $rate;
		sleep $due - time if $due > time;
		push @waiting, $frontend->connect;
		$waiting[-1]->send(Frontend::Client::format_request('HEAD', uncached));
		$statuses{ (shift @waiting)->response('HEAD')->{status} // 'none' }++ while @waiting > $rate;
	}
	$statuses{ $_->response('HEAD')->{status} // 'none' }++ for @waiting;
	return \%statuses;
}

# Backends of the frontend, of whatever state.
sub backends { return value(q{SELECT count(*) FROM pg_stat_activity WHERE application_name = 'shortenerd'}); }
sub lock_links
{
	my $session = $node->background_psql('postgres');
	$session->query_safe('BEGIN; LOCK TABLE shortener.link IN ACCESS EXCLUSIVE MODE');
	return $session;
}
sub asking { my ($frontend, $target) = @_; my $client = $frontend->connect; $client->send(Frontend::Client::format_request('GET', $target)); return $client; }
my $connstr = $node->connstr('postgres') . ' application_name=shortenerd';

# Answers that come late: 503 ends although the load goes on.
my $proxy = SlowProxy->start($node, 0.1);
my $frontend = Frontend->start(database => $proxy->connstr, threads => 1, flags => [ '--primary', $connstr ]);
is_deeply(load($frontend, 2, 50), { 302 => 100 }, 'answers take 100 ms: all are given');
$proxy->cut;
load($frontend, 4, 50);
my $statuses = load($frontend, 3, 50);
cmp_ok($statuses->{302} // 0, '>=', 140, 'after the connection was cut under load, links are found again while the load goes on');
my $growth = $frontend->growth(sub {
	$proxy->delay(0.25);
	sleep 0.5;
	$statuses = load($frontend, 4, 50);
});
cmp_ok($statuses->{302} // 0, '>=', 190, 'answers take 250 ms: they are given');
is($growth->{database_reconnects_total}, undef, '... on the same connection');

# An answer that comes after the visitor has gone is kept for the next.
$proxy->delay(1.5);
is($frontend->status('/late'), 503, 'an answer that takes longer than a visitor waits');
sleep 2;
is($frontend->growth(sub { is($frontend->status('/late'), 302, '... is there for the next visitor') })->{cache_misses_total}, undef, '... without asking again');
# The listening connection is lost and made again, while no code can be resolved: cached links are kept.
$proxy->delay(0);
sleep 2; # until no late answer is on its way
ok(eventually { !$frontend->growth(sub { $frontend->status('/cached') })->{cache_misses_total} }, 'a link is cached');
$proxy->delay(4);
sleep 0.2;
my $flushes = $frontend->metrics->{cache_flushes_total};
my $reconnects = $frontend->metrics->{listen_reconnects_total};
value(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'shortenerd' AND query NOT LIKE '%resolve_many%'});
ok(eventually { $frontend->metrics->{listen_reconnects_total} > $reconnects }, 'the listening connection was lost and made again');
my %seen;
my $until = time + 1;
while (time < $until) { $seen{ $frontend->status('/cached') // 'none' }++; sleep 0.02 }
is_deeply([ keys %seen ], [302], '... while the answers of the database take 4 s: a cached link is served');
is($frontend->metrics->{cache_flushes_total}, $flushes, '... from the cache, which is kept');
$proxy->delay(0);
ok($frontend->until_ready, 'when answers come again it is ready');
cmp_ok($frontend->metrics->{cache_flushes_total}, '>', $flushes, '... and what was cached is forgotten');
$frontend->stop;
undef $proxy;

# Locks: one connection for each thread and one that listens, and no more, however long it takes.
$frontend = Frontend->start(database => $connstr, threads => 20);
is($frontend->status('/cached'), 302, 'a link is cached');
my $locker = lock_links();
my ($most, $end, @askers) = (0, time + 20);
while (time < $end)
{
	push @askers, asking($frontend, uncached) for 1 .. 40;
	my $count = backends();
	$most = $count if $count > $most;
	is($frontend->status('/cached'), 302, 'cached links are served') if @askers == 400;
	shift @askers while @askers > 400;
	sleep 0.5;
}
cmp_ok($most, '<=', 21, "behind a lock for 20 s with 20 threads: $most connections at most");
is($frontend->admin('/readyz')->{status}, 503, '... not ready');
is($askers[-1]->response->{status}, 503, '... visitors are told');
like($frontend->log, qr/error: cannot resolve codes: .*the database took too long/, '... and the log');
$locker->query_safe('ROLLBACK');
$locker->quit;
ok($frontend->until_ready, 'without the lock it is ready');
is($frontend->status(uncached), 302, '... and answers');
is(backends(), 21, '... on as many connections as before');
# A frontend that is stopped takes its statements with it.
$locker = lock_links();
my $waiting = asking($frontend, uncached);
ok(eventually { value(q{SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'}) > 0 }, 'a backend waits for a lock');
$frontend->signal('TERM');
is($frontend->wait_for_end, 0, 'the frontend ends');
ok(eventually { backends() == 0 }, '... and leaves no backend that waits');
$locker->quit;

# Restarts: cached links are served before, while and after the database is away.
$frontend = Frontend->start(database => $connstr, threads => 4);
my @cached = map { "/n$_" } 1 .. 20;
for my $round (1 .. 5)
{
	ok(eventually { !$frontend->growth(sub { $frontend->get($_) for @cached })->{cache_misses_total} }, "round $round: links are cached");
	my %seen;
	my $flushes = $frontend->metrics->{cache_flushes_total};
	$node->stop('fast');
	$seen{ $frontend->status($_) }++ for @cached;
	$node->start;
	my $end = time + 20;
	while (time < $end)
	{
		$seen{ $frontend->status($_) // 'none' }++ for @cached;
		last if $frontend->metrics->{cache_flushes_total} > $flushes && $frontend->metrics->{database_connections} == 4;
	}
	$seen{ $frontend->status($_) }++ for @cached;
	is(join(' ', sort keys %seen), '302', '... and found at any time of a restart');
	cmp_ok($frontend->metrics->{cache_flushes_total}, '>', $flushes, '... although everything was forgotten in between');
}
$frontend->stop;

# Changes that no trigger told of.
$frontend = Frontend->start(database => $connstr);
is($frontend->status('/edited'), 302, 'a link');
value(q{DROP EXTENSION shortener CASCADE; UPDATE shortener.link SET is_active = false WHERE short_code = 'edited'});
value('CREATE EXTENSION shortener');
ok(eventually { ($frontend->status('/edited') // 0) == 410 }, 'a link that was disabled without the extension is gone when the extension is back');
value(q{ALTER TABLE shortener.link DISABLE TRIGGER USER; UPDATE shortener.link SET is_active = true WHERE short_code = 'edited'});
value('ALTER TABLE shortener.link ENABLE TRIGGER USER');
is($frontend->status('/edited'), 410, 'a change without triggers is not seen');
value('CALL shortener.install()');
ok(eventually { ($frontend->status('/edited') // 0) == 302 }, '... until install()');

# A connection that listens and hears nothing any more.
my ($listener) = split /\n/, value(q{SELECT pid FROM pg_stat_activity WHERE application_name = 'shortenerd' AND query NOT LIKE '%resolve_many%' AND query NOT LIKE '%page_texts%'});
ok($listener, 'a backend listens');
kill 'STOP', $listener;
my $stopped = time;
ok(eventually { $frontend->metrics->{listen_reconnects_total} > 0 }, 'it is stopped, which the frontend notices');
cmp_ok(time - $stopped, '<', 15, '... soon');
ok($frontend->until_ready, '... and listens on another connection');
value(q{SELECT shortener.update_link('edited', url => 'https://to.example/again')});
ok(eventually { ($frontend->location('/edited') // '') eq 'https://to.example/again' }, '... on which it hears of changes');
kill 'CONT', $listener;
$frontend->stop;

# Two hosts in the connection string and no --primary: what a standby says is not kept while it may be behind.
$node->backup('copy');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'copy', has_streaming => 1);
$standby->append_conf('postgresql.conf', 'hot_standby = on');
$standby->start;
$frontend = Frontend->start(flags => [ '--standby-delay', '4s' ],
	database => sprintf 'host=%s,%s port=%s,%s dbname=postgres', map { ($standby->$_, $node->$_) } 'host', 'port');
is($standby->safe_psql('postgres', q{SELECT count(*) > 0 FROM pg_stat_activity WHERE query LIKE '%resolve_many%' AND pid <> pg_backend_pid()}), 't', 'reading from a standby');
is($frontend->location('/edited'), 'https://to.example/again', 'a link');
$standby->safe_psql('postgres', 'SELECT pg_wal_replay_pause()');
$standby->poll_query_until('postgres', q{SELECT pg_get_wal_replay_pause_state() = 'paused'}) or die 'the standby goes on';
$frontend->hear(sub { value(q{SELECT shortener.update_link('edited', url => 'https://to.example/newer')}) });
is($frontend->location('/edited'), 'https://to.example/again', 'it is edited, which the standby does not know yet');
value(q{SELECT shortener.create_link('https://to.example/fresh', alias => 'fresh')});
is($frontend->status('/fresh'), 404, 'so is a new link');
$standby->safe_psql('postgres', 'SELECT pg_wal_replay_resume()');
$node->wait_for_catchup($standby);
is($frontend->location('/edited'), 'https://to.example/newer', '... and seen as soon as the standby knows');
ok(eventually { $frontend->status('/fresh') == 302 }, '... the new link, too');
$frontend->stop;
# A wish to read from standbys does not make it listen to one.
$frontend = Frontend->start(database => sprintf 'host=%s,%s port=%s,%s dbname=postgres application_name=shortenerd target_session_attrs=prefer-standby', map { ($node->$_, $standby->$_) } 'host', 'port');
is($standby->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE application_name = 'shortenerd'}), 2, 'with target_session_attrs=prefer-standby both threads read from the standby');
$frontend->hear(sub { value(q{SELECT shortener.update_link('edited', url => 'https://to.example/newest')}) });
$node->wait_for_catchup($standby);
is($frontend->location('/edited'), 'https://to.example/newest', '... and changes are heard from the primary');
$frontend->stop;
# With the standby alone there is nobody to listen to.
$frontend = Frontend->start(database => $standby->connstr('postgres'), ready => 0);
ok(eventually { $frontend->log =~ /error: cannot listen for changes: .*hot standby mode; name the primary with --primary/ }, 'a standby alone: the log asks for --primary');
is($frontend->location('/edited'), 'https://to.example/newest', '... and links are found');
$frontend->stop;
$standby->stop;

# The default workspace does not exist.
$frontend = Frontend->start(database => $connstr, flags => [ '--default-workspace', 'blue' ], ready => 0);
ok(eventually { $frontend->log =~ /error: default workspace "blue" \(--default-workspace\) does not exist/ }, 'a default workspace that does not exist is logged');
is($frontend->admin('/readyz')->{status}, 503, '... not ready');
like($frontend->admin('/readyz')->{body}, qr/no default workspace/, '... because of that');
is($frontend->status('/cached'), 503, '... which is no reason to tell visitors that their links do not exist');
value(q{SELECT shortener.create_workspace('red'); SELECT shortener.add_domain('red.example', 'red');
	SELECT shortener.create_link('https://to.example/red', alias => 'red', workspace => 'red')});
is($frontend->location('/red', Host => 'red.example'), 'https://to.example/red', 'hosts that have a workspace are served');
value(q{SELECT shortener.create_workspace('blue'); SELECT shortener.create_link('https://to.example/blue', alias => 'blue', workspace => 'blue')});
ok($frontend->until_ready, 'with the workspace it is ready');
is($frontend->location('/blue'), 'https://to.example/blue', '... and serves it');
value(q{UPDATE shortener.workspace SET slug = 'green' WHERE slug = 'blue'});
ok(eventually { $frontend->admin('/readyz')->{status} == 503 }, 'a workspace that is renamed: not ready');
is($frontend->status('/blue'), 503, '... 503');
value(q{UPDATE shortener.workspace SET slug = 'blue' WHERE slug = 'green'});
ok($frontend->until_ready, '... until it has its name again');
is(scalar(() = $frontend->log =~ /does not exist/g), 2, '... which was logged once each time');
$frontend->stop;

$node->stop;
done_testing();
