# How the cache learns: from notifications, in how many milliseconds, and what holds when a notification is lost; one
# question for many who ask the same; reading from a standby while the primary tells what changed; a failover.
use strict;
use warnings;

use Frontend;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = database('primary');
sub value { return $node->safe_psql('postgres', $_[0]); }

# A session that stays: psql takes longer to start than a change to be seen.
my $session = $node->background_psql('postgres');
sub change { return $session->query_safe($_[0]); }

my $frontend = Frontend->start(database => $node->connstr('postgres'), flags => [ '--database-timeout', '20s' ]);

# Asked often on one connection until the answer is another; gives the seconds since the call.
sub seconds_until
{
	my ($code, $wanted) = @_;
	my $client = $frontend->connect;
	my $begin = time;
	while (time - $begin < 10)
	{
		my $response = $client->request('GET', "/$code");
		return time - $begin if ($response->{location} // $response->{status}) eq $wanted;
	}
	return 'never';
}
sub seen { my ($code, $wanted, $name) = @_; isnt(seconds_until($code, $wanted), 'never', $name); return; }

# Every kind of change.
change(q{SELECT shortener.create_link('https://to.example/1', alias => 'link')});
is($frontend->location('/link'), 'https://to.example/1', 'a link');
change(q{SELECT shortener.update_link('link', url => 'https://to.example/2')});
seen('link', 'https://to.example/2', 'an update is seen');
change(q{SELECT shortener.disable_link('link')});
seen('link', 410, 'disabling is');
change(q{SELECT shortener.enable_link('link')});
seen('link', 'https://to.example/2', 'enabling is');
change(q{UPDATE shortener.link SET expires_at = now() - interval '1 day' WHERE short_code = 'link'});
seen('link', 410, 'an expiry in the past is');
change(q{SELECT shortener.update_link('link', expires_at => now() + interval '1 day')});
seen('link', 'https://to.example/2', 'a new expiry is');
change(q{SELECT shortener.delete_link('link')});
seen('link', 410, 'deletion is');
is($frontend->status('/later'), 404, 'a code that does not exist');
change(q{SELECT shortener.create_link('https://to.example/later', alias => 'later')});
seen('later', 'https://to.example/later', 'an alias made afterwards is');
change(q{BEGIN; SELECT shortener.update_link('later', url => 'https://to.example/uncommitted')});
sleep 0.2;
is($frontend->location('/later'), 'https://to.example/later', 'a change is not seen before it is committed');
change('COMMIT');
seen('later', 'https://to.example/uncommitted', '... and is after it');
change(q{SELECT shortener.add_domain('late.example'), shortener.set_page_texts('Nothing at all.', NULL)});
ok(eventually { $frontend->get('/nobody')->{body} =~ /Nothing at all\./ }, 'texts of pages are');
value(q{SELECT shortener.create_workspace('other'); UPDATE shortener.domain SET workspace_id = shortener.workspace_id('other')});
ok(eventually { $frontend->status('/later', Host => 'late.example') == 404 }, 'the workspace of a domain is');

# Many at once: one notification to forget everything.
value(q{SELECT count(shortener.create_link('https://to.example/bulk', alias => 'bulk' || i)) FROM generate_series(1, 300) i});
my @bulk = map { "HEAD /bulk$_ HTTP/1.1\r\nHost: a\r\n\r\n" } 1 .. 300;
is_deeply($frontend->many(10, @bulk), { 302 => 300 }, '300 links');
ok(eventually { !$frontend->growth(sub { $frontend->many(10, @bulk) })->{cache_misses_total} }, '... are cached');
my $growth = $frontend->growth(sub {
	change(q{UPDATE shortener.link SET is_active = false WHERE short_code LIKE 'bulk%'});
	ok(eventually { ($frontend->many(10, @bulk)->{410} // 0) == 300 }, '... and all gone when they are disabled');
});
is($growth->{cache_flushes_total}, 1, '... by emptying the cache once');

# A forged notification does no harm.
change(qq{NOTIFY shortener, '$_'}) for '', 'nonsense', '0123456789abcdef', '0123456789abcdef 0', 'x' x 7000, 'flush';
is($frontend->location('/later'), 'https://to.example/uncommitted', 'forged notifications do no harm');

# From COMMIT to the first fresh answer.
my @milliseconds;
for my $round (1 .. 60)
{
	change("SELECT shortener.update_link('later', url => 'https://to.example/r$round')");
	my $seconds = seconds_until('later', "https://to.example/r$round");
	push @milliseconds, $seconds eq 'never' ? 1e6 : 1000 * $seconds;
}
@milliseconds = sort { $a <=> $b } @milliseconds;
note(sprintf 'from the end of COMMIT to the first fresh answer, %d changes: median %.1f ms, slowest %.1f ms',
	scalar @milliseconds, $milliseconds[ @milliseconds / 2 ], $milliseconds[-1]);
cmp_ok($milliseconds[ @milliseconds / 2 ], '<', 1000, sprintf('60 changes are seen, in the median after %.1f ms', $milliseconds[ @milliseconds / 2 ]));
is(scalar(grep { $_ > 9000 } @milliseconds), 0, '... each');

# Changes under load: after each, not one old answer follows a new one, on any connection.
my @clients = map { $frontend->connect } 1 .. 8;
my $back = 0;
my %last = map { $_ => 0 } 0 .. $#clients;
for my $round (1 .. 30)
{
	change("SELECT shortener.update_link('later', url => 'https://to.example/$round')");
	for (1 .. 5)
	{
		$_->send(Frontend::Client::format_request('GET', '/later')) for @clients;
		for my $number (0 .. $#clients)
		{
			my ($value) = ($clients[$number]->response->{location} // '') =~ m{/(\d+)$};
			next unless defined $value;
			$back++ if $value < $last{$number};
			$last{$number} = $value;
		}
	}
}
is($back, 0, 'no old answer after a new one, over 1,200 requests during 30 changes');
seen('later', 'https://to.example/30', 'the last change stays');

# A stampede: 200 at once ask for one code that is not cached, and the database is asked once.
value(q{SELECT count(shortener.create_link('https://to.example/' || c, alias => c)) FROM unnest('{stampede,second}'::text[]) c});
$frontend->status('/later'); # the host is known, and its page texts
my @crowd = map { $frontend->connect } 1 .. 200;
my $locker = $node->background_psql('postgres');
for my $code ('stampede', 'second')
{
	# A lock for a moment, so that all have asked before the first is answered.
	$locker->query_safe('BEGIN; LOCK TABLE shortener.link IN ACCESS EXCLUSIVE MODE');
	my @locations;
	$growth = $frontend->growth(sub {
		$_->send(Frontend::Client::format_request('GET', "/$code")) for @crowd;
		eventually { $frontend->metrics->{requests_in_flight} == 200 };
		$locker->query_safe('ROLLBACK');
		@locations = map { $_->response->{location} // 'none' } @crowd;
	});
	is(scalar(grep { $_ eq "https://to.example/$code" } @locations), 200, "200 who ask for /$code at once are answered");
	is($growth->{database_round_trips_total}, 1, '... by one question to the database');
	is($growth->{batch_codes_sum}, 1, '... about one code');
	is($growth->{coalesced_total}, 199, '... which the others share');
}
# Different codes that are asked for while a question is under way travel together.
value(q{SELECT count(shortener.create_link('https://to.example/' || i, alias => 'together' || i)) FROM generate_series(1, 200) i});
$locker->query_safe('BEGIN; LOCK TABLE shortener.link IN ACCESS EXCLUSIVE MODE');
my $together;
$growth = $frontend->growth(sub {
	$crowd[ $_ - 1 ]->send(Frontend::Client::format_request('GET', "/together$_")) for 1 .. 200;
	eventually { $frontend->metrics->{requests_in_flight} == 200 };
	$locker->query_safe('ROLLBACK');
	$together = grep { ($crowd[ $_ - 1 ]->response->{location} // '') eq "https://to.example/$_" } 1 .. 200;
});
is($together, 200, '200 who ask for 200 codes each get their own');
cmp_ok($growth->{database_round_trips_total}, '<=', 20, "... by $growth->{database_round_trips_total} questions to the database");
is($growth->{batch_codes_sum}, 200, '... about 200 codes');
$locker->quit;
$_->close for @crowd;
$frontend->stop;

# A notification is lost: the time to live is the bound.
$frontend = Frontend->start(database => $node->connstr('postgres'), flags => [ '--cache-ttl', '2s' ]);
change(q{SET session_replication_role = replica});
for (
	[ 'an update', 'later', 'https://to.example/30', q{UPDATE shortener.link SET original_url = 'https://to.example/lost' WHERE short_code = 'later'}, 'https://to.example/lost' ],
	[ 'a disabling', 'later', 'https://to.example/lost', q{UPDATE shortener.link SET is_active = false WHERE short_code = 'later'}, 410 ],
	[ 'an alias', 'lost', 404, q{INSERT INTO shortener.link (workspace_id, short_code, original_url, redirect_status) VALUES (1, 'lost', 'https://to.example/found', 302)},
		'https://to.example/found' ])
{
	my ($name, $code, $old, $sql, $new) = @$_;
	my $answer = sub { my $response = $frontend->get("/$code"); return $response->{location} // $response->{status} };
	is($answer->(), $old, "before $name that is not notified");
	my $kept = time;
	change($sql);
	is($answer->(), $old, '... the old answer is cached');
	sleep 0.05 while time < $kept + 2.1;
	is($answer->(), $new, '... and no longer given after the time to live');
}
change(q{SET session_replication_role = origin});
$frontend->stop;

# Reading from a standby, listening on the primary.
$node->backup('copy');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'copy', has_streaming => 1);
$standby->append_conf('postgresql.conf', 'hot_standby = on');
$standby->start;
change(q{SELECT shortener.create_link('https://to.example/s0', alias => 'standby')});
$node->wait_for_catchup($standby);
my @two = (database => $standby->connstr('postgres'), flags => [ '--primary', $node->connstr('postgres'), '--standby-delay', '3s', '--database-timeout', '20s' ]);
$frontend = Frontend->start(@two);
is($frontend->location('/standby'), 'https://to.example/s0', 'read from a standby');
is($standby->safe_psql('postgres', q{SELECT count(*) > 0 FROM pg_stat_activity WHERE query LIKE '%resolve_many%' AND pid <> pg_backend_pid()}), 't', '... really');
change(q{SELECT shortener.update_link('standby', url => 'https://to.example/s1')});
seen('standby', 'https://to.example/s1', 'a change on the primary is seen');
# The standby falls behind by less than --standby-delay: the old answer is given, but not kept.
ok(eventually { !$frontend->growth(sub { $frontend->get('/standby') })->{cache_misses_total} }, 'after the delay it is cached');
sub pause_standby
{
	$standby->safe_psql('postgres', 'SELECT pg_wal_replay_pause()');
	$standby->poll_query_until('postgres', q{SELECT pg_get_wal_replay_pause_state() = 'paused'}) or die 'the standby goes on';
	return;
}
sub resume_standby
{
	$standby->safe_psql('postgres', 'SELECT pg_wal_replay_resume()');
	$node->wait_for_catchup($standby);
	return;
}
pause_standby();
$frontend->hear(sub { change(q{SELECT shortener.update_link('standby', url => 'https://to.example/s2')}) });
is($frontend->location('/standby'), 'https://to.example/s1', 'a change that the standby does not know yet: the answer is still the old one');
resume_standby();
is($frontend->location('/standby'), 'https://to.example/s2', '... and the new one as soon as the standby has it: the old one was not kept');
# The same when the standby takes so long to answer that the delay is over.
pause_standby();
$frontend->hear(sub { change(q{SELECT shortener.update_link('standby', url => 'https://to.example/s2slow')}) });
my @backends = split /\n/, $standby->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE query LIKE '%resolve_many%' AND pid <> pg_backend_pid()});
kill 'STOP', @backends;
my $patient = $frontend->connect;
$patient->send(Frontend::Client::format_request('GET', '/standby'));
sleep 3.5;
kill 'CONT', @backends;
is($patient->response->{location}, 'https://to.example/s2', 'a slow answer of a standby that was behind');
resume_standby();
is($frontend->location('/standby'), 'https://to.example/s2slow', '... is not kept');
# The same for the workspace of a host.
is($frontend->status('/standby', Host => 'late.example'), 404, 'a host of another workspace');
pause_standby();
$frontend->hear(sub { change(q{UPDATE shortener.domain SET workspace_id = shortener.workspace_id('default') WHERE host = 'late.example'}) });
is($frontend->status('/standby', Host => 'late.example'), 404, 'it moved, but the standby does not know yet');
resume_standby();
is($frontend->location('/standby', Host => 'late.example'), 'https://to.example/s2slow', '... and when it knows, so do visitors');
ok(eventually { !$frontend->growth(sub { $frontend->get('/standby', Host => 'late.example') })->{cache_misses_total} }, '... in the end from the cache');
$frontend->stop;

# Failover: both hosts in the connection string; the standby is promoted and the old primary stops.
sub hosts
{
	return sprintf 'host=%s,%s port=%s,%s dbname=postgres', map { ($node->$_, $standby->$_) } 'host', 'port';
}
$frontend = Frontend->start(database => hosts());
is($frontend->location('/standby'), 'https://to.example/s2slow', 'a connection string with two hosts');
$session->quit;
$node->stop('immediate');
is($frontend->location('/standby'), 'https://to.example/s2slow', 'the primary has died, cached links are served');
my @more = split /\n/, $standby->safe_psql('postgres', q{SELECT short_code FROM shortener.link WHERE short_code LIKE 'together%'});
my $others = 0;
ok(eventually { ($frontend->status('/' . $more[ $others++ % @more ]) // 0) == 302 }, '... uncached ones soon by the standby');
$standby->promote;
$standby->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die 'no promotion';
ok($frontend->until_ready, 'after the promotion it listens to the new primary');
is($frontend->location('/standby'), 'https://to.example/s2slow', '... serves');
$standby->safe_psql('postgres', q{SELECT shortener.update_link('standby', url => 'https://to.example/s3')});
seen('standby', 'https://to.example/s3', '... and hears of its changes');
$frontend->stop;

$standby->stop;
done_testing();
