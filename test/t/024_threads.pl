# The frontend built with the thread sanitizer, under everything at once: hits, misses, evictions, refusals, changes,
# flushes, lost connections and a restart of the database. The sanitizer has nothing to report.
use strict;
use warnings;

use Frontend;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $seconds = 12;
$ENV{SHORTENERD} = $ENV{THREAD_SANITIZED};
{
	my (undef, $out, $err) = run_shortenerd({ TSAN_OPTIONS => 'help=1' }, '--version');
	like("$out$err", qr/ThreadSanitizer/, 'the program is built with the thread sanitizer');
}

my $node = database('threads');
sub value { return $node->safe_psql('postgres', $_[0]); }
value(q{SELECT count(shortener.create_link('https://to.example/' || repeat('x', 200) || i, alias => 'c' || i, redirect_status => 307,
		expires_at => CASE WHEN i % 10 = 0 THEN now() + interval '5 seconds' END)) FROM generate_series(1, 5000) i;
	SELECT shortener.create_workspace('blue'), shortener.add_domain('blue.example', 'blue')});

my $frontend = Frontend->start(
	database => $node->connstr('postgres') . ' application_name=shortenerd',
	threads => 4,
	clicks => 1,
	flags => [ '--cache-size', '512kB', '--request-timeout', '1s', '--max-connections', '150', '--trusted-proxy', '127.0.0.1', '--log-level', 'debug' ],
	environment => { TSAN_OPTIONS => 'second_deadlock_stack=1 history_size=4' });

# Visitors of every kind, until the program goes. Exit status 0: they were served.
sub visit
{
	my ($seed) = @_;
	srand $seed;
	my $served = 0;
	my $end = time + $seconds + 60;
	my @hosts = ('links.example', 'blue.example', map { "h$_.example" } 1 .. 50);
	while (time < $end)
	{
		my @clients = grep { $_->{socket} } map { $frontend->connect } 1 .. 20;
		last unless @clients;
		for my $round (1 .. 20)
		{
			for my $client (@clients)
			{
				my $code = rand() < 0.5 ? 'c' . int rand 100 : rand() < 0.8 ? 'c' . int rand 6000 : 'r' . int rand 1e6;
				my @fields = (Host => $hosts[ rand() < 0.9 ? 0 : rand @hosts ], 'X-Forwarded-For' => '203.0.113.' . int rand 256);
				my $kind = int rand 100;
				my $bytes = Frontend::Client::format_request(
					$kind == 0 ? ('POST', "/$code", @fields, body => 'x' x rand 2000) : ($kind == 1 ? 'HEAD' : 'GET', "/$code", @fields));
				$bytes .= $bytes if $kind == 2;
				$bytes = "GET /$code HTTP/1.1\r\n\r\n" if $kind == 3;
				$bytes = substr $bytes, 0, 20 if $kind == 4; # and no more of it
				$client->{waits} = $kind != 4;
				$client->send($bytes, 1);
			}
			for my $client (@clients)
			{
				$client->more(time + 0.5) if $client->{waits};
				$served += () = $client->{buffer} =~ /^HTTP\/1\.1 /mg;
				$client->{buffer} = '';
			}
			@clients = grep { !$_->{ended} } @clients;
		}
		$_->close for @clients;
	}
	return $served > 500 ? 0 : 1;
}
my @visitors = map {
	my $pid = fork // die "fork: $!";
	POSIX::_exit(visit($_)) if $pid == 0;
	$pid
} 1 .. 3;

my $end = time + $seconds;
my ($rounds, $restarted) = (0, 0);
while (time < $end)
{
	$rounds++;
	value("SELECT shortener.update_link('c' || (random() * 99)::int, url => 'https://to.example/$rounds') FROM generate_series(1, 20)");
	value('UPDATE shortener.link SET is_active = NOT is_active WHERE id % 7 = ' . $rounds % 7) if $rounds % 5 == 0;
	value("SELECT shortener.set_page_texts('Text $rounds', NULL)") if $rounds % 7 == 0;
	value(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'shortenerd' AND random() < 0.4}) if $rounds % 10 == 0;
	$frontend->metrics;
	$node->restart, $restarted = 1 if !$restarted && time > $end - $seconds / 2;
	sleep 0.05;
}
ok($frontend->until_ready(60), 'after all that it is ready');
my $metrics = $frontend->metrics;
cmp_ok($metrics->{$_}, '>', 0, "$_: $metrics->{$_}")
  for qw(cache_misses_total coalesced_total cache_flushes_total notifications_total database_reconnects_total listen_reconnects_total clicks_total),
  'cache_hits_total{kind="redirect"}', 'cache_hits_total{kind="gone"}', 'cache_hits_total{kind="unknown"}', 'requests_total{status="400"}';
$frontend->signal('TERM');
is($frontend->wait_for_end(60), 0, 'SIGTERM under load ends it well');
is(join(' ', map { waitpid $_, 0; $? } @visitors), '0 0 0', 'the visitors were served');
my @reports = $frontend->log =~ /^(WARNING: ThreadSanitizer: .*?^={18}$)/msg;
is(scalar(@reports), 0, 'the sanitizer reports nothing') or diag(join "\n", @reports[ 0 .. ($#reports < 2 ? $#reports : 2) ]);
ok($frontend->log !~ /Sanitizer/, '... nor complains');

$node->stop;
done_testing();
