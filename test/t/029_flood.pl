# Clients that send request after request and read no answer: the others have their turn, and memory is bounded.
use strict;
use warnings;

use Frontend;
use IO::Socket::INET;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = database('flood');
$node->safe_psql('postgres', q{SELECT shortener.create_link('https://to.example/good', alias => 'good')});
my $good = Frontend::Client::format_request('GET', '/good');

# What the log says of redirects, in order: who was served on one thread, and when a visitor with another address was.
# All have asked while the program was stopped.
my $frontend = Frontend->start(database => $node->connstr('postgres'), threads => 1, flags => [ '--log-level', 'debug' ]);
is($frontend->status('/good'), 302, 'a link, from now on in the cache');
my @floods = map { $frontend->connect } 1 .. 50;
my $visitor = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $frontend->{port}, LocalAddr => '127.0.0.2');
ok(eventually { $frontend->metrics->{connections} == 51 }, '50 clients and a visitor are connected');
my $logged = length $frontend->log;
$frontend->signal('STOP');
$_->send($good x 200) for @floods;
print $visitor $good;
$frontend->signal('CONT');
like(<$visitor>, qr/^HTTP\/1\.1 302 /, 'the visitor is served');
ok(eventually { substr($frontend->log, $logged) =~ /client=127\.0\.0\.2$/m }, '... and logged');
my ($before) = substr($frontend->log, $logged) =~ /(.*)client=127\.0\.0\.2$/ms;
my $turns = () = $before =~ /client=127\.0\.0\.1$/mg;
cmp_ok($turns, '<=', 50 * 16 * 2, "... when the 50 had at most two turns ($turns redirects)");
is(scalar(grep { $_->response->{status} == 302 } map { ($_) x 200 } @floods), 50 * 200, '... who are all served as well');
$_->close for @floods;
$frontend->stop;

# Two thousand, as long as it lasts.
$frontend = Frontend->start(database => $node->connstr('postgres'), flags => [ '--write-timeout', '60s' ]);
is($frontend->status('/good'), 302, 'a link, from now on in the cache');
sub flood
{
	my ($clients) = @_;
	local $SIG{PIPE} = 'IGNORE';
	my @sockets = map { $frontend->connect->{socket} // POSIX::_exit(1) } 1 .. $clients;
	my $bytes = $good x 100;
	my $end = time + 300;
	while (time < $end && getppid != 1)
	{
		syswrite $_, $bytes for @sockets;
		sleep 0.01;
	}
	POSIX::_exit(0);
}
my @pids = map { my $pid = fork // die "fork: $!"; flood(500) if $pid == 0; $pid } 1 .. 4;
ok(eventually { $frontend->metrics->{connections} >= 2000 }, '2,000 clients are connected');
ok(eventually { $frontend->metrics->{'requests_total{status="302"}'} > 100_000 }, '... and ask');
my $client = $frontend->connect;
is(scalar(grep { ($client->request('GET', '/good')->{status} // 0) == 302 } 1 .. 300), 300, 'a visitor among them is served 300 times');
is($frontend->status('/good'), 302, '... so is a new one');
is($frontend->admin('/healthz')->{status}, 200, '... and whoever asks for the health');
cmp_ok($frontend->metrics->{connections}, '>=', 2000, 'the 2,000 are still there');
cmp_ok($frontend->resident, '<', 200_000, '... and have not filled the memory');
kill 'KILL', @pids;
waitpid $_, 0 for @pids;
$frontend->stop;

$node->stop;
done_testing();
