# What runs out: the time of one question in a batch, threads to connect in, descriptors, the patience at the end.
use strict;
use warnings;

use Frontend;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = database('scarcity');
sub value { return $node->safe_psql('postgres', $_[0]); }
value(q{SELECT count(shortener.create_link('https://to.example/n' || i, alias => 'n' || i)) FROM generate_series(1, 100) i});
my $next = 0;
sub uncached { return '/n' . ++$next; } # a code that nobody has asked for

# Asks for a code that is not cached, on a connection of its own, and does not wait for the answer.
sub ask
{
	my ($frontend) = @_;
	my $client = $frontend->connect;
	$client->send(Frontend::Client::format_request('GET', uncached));
	return $client;
}
sub locker
{
	my $session = $node->background_psql('postgres');
	$session->query_safe('BEGIN');
	return $session;
}
my $lock = 'LOCK TABLE shortener.link IN ACCESS EXCLUSIVE MODE';

# Two questions travel together, one of which has waited for long: its time-out is not the other's. A lock holds up
# the question before them, the next lock holds up these two.
my $frontend = Frontend->start(database => $node->connstr('postgres'), threads => 1, flags => [ '--database-timeout', '5s' ]);
is($frontend->status(uncached), 302, 'a link');
my ($first_lock, $second_lock) = (locker(), locker());
$first_lock->query_safe($lock);
my $before = ask($frontend);
$node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_locks WHERE NOT granted}) or die 'no question waits';
$second_lock->query_until(qr/begun/, "\\echo begun\n$lock;\n");
my $early = ask($frontend);
sleep 3;
my $late = ask($frontend);
eventually { $frontend->metrics->{requests_in_flight} == 3 };
$first_lock->query_safe('ROLLBACK');
is($before->response->{status}, 302, 'a question before them is answered');
is($early->response->{status}, 503, 'one has waited for too long');
$second_lock->query_safe('ROLLBACK');
is($late->response->{status}, 302, '... the one that came later has not');
$_->quit for $first_lock, $second_lock;
$frontend->stop;

# No thread to connect in, for a while.
$frontend = Frontend->start(database => $node->connstr('postgres') . ' application_name=shortenerd');
# Sets a soft limit, which the hard one bounds.
sub limit { my ($name, $value) = @_; return system('prlimit', '--pid', $frontend->{pid}, "--$name=$value:"); }
sub hard_limit { my ($name) = @_; return slurp_file("/proc/$frontend->{pid}/limits") =~ /^$name +\S+ +(\S+)/m ? $1 : undef; }
is(limit('nproc', 1), 0, 'no more threads');
value(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'shortenerd'});
ok(eventually { $frontend->log =~ /error: no database: no thread to connect in/ }, 'without them there is no database');
is($frontend->status(uncached), 503, '... which visitors are told');
is(limit('nproc', hard_limit('Max processes')), 0, 'threads again');
ok($frontend->until_ready, '... and it is ready');
is($frontend->status(uncached), 302, '... and answers');
$frontend->stop;

# No descriptors, on two addresses at once: it waits, and does not try all the time.
$frontend = Frontend->start(database => $node->connstr('postgres'), flags => [ '--listen', '127.0.0.2:0' ]);
my ($second) = $frontend->log =~ /serving links on http:\/\/127\.0\.0\.2:(\d+)/;
my $used = () = glob "/proc/$frontend->{pid}/fd/*";
is(limit('nofile', $used + 2), 0, 'few descriptors');
my @clients = map { ($frontend->connect, IO::Socket::INET->new(PeerAddr => '127.0.0.2', PeerPort => $second)) } 1 .. 10;
sub processor_seconds
{
	my @fields = split ' ', slurp_file("/proc/$frontend->{pid}/stat") =~ s/.*\) //sr;
	return ($fields[11] + $fields[12]) / POSIX::sysconf(POSIX::_SC_CLK_TCK());
}
sleep 0.5;
my $busy = processor_seconds();
sleep 3;
$busy = processor_seconds() - $busy;
cmp_ok($busy, '<', 1, "... cost little time ($busy s of 3)");
$_->close for @clients;
is(limit('nofile', hard_limit('Max open files')), 0, 'enough of them again');
ok(eventually { ($frontend->status(uncached) // 0) == 302 }, '... and it answers');
$frontend->stop;

# The end, while requests wait for the database: freed memory is overwritten, so that nobody uses it unnoticed.
$frontend = Frontend->start(database => $node->connstr('postgres'), environment => { MALLOC_PERTURB_ => 165 },
	flags => [ '--database-timeout', '60s', '--shutdown-timeout', '100ms' ]);
my $holder = locker();
$holder->query_safe($lock);
my @waiting = map { ask($frontend) } 1 .. 20;
$next -= 20;
push @waiting, map { ask($frontend) } 1 .. 20; # the same codes, mostly on the other thread
ok(eventually { $frontend->metrics->{requests_in_flight} == 40 }, '40 requests wait');
$_->close for @waiting[ 0 .. 9 ];
$frontend->stop;
like($frontend->log, qr/warning: closing 40 connections with requests under way.* info: stopped\n\z/s, 'they are given up');
$holder->quit;

$node->stop;
done_testing();
