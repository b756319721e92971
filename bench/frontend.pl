# The frontend against nginx with the same codes in a map, one thread each, the server on one processor and the client
# on the others; and against point SELECTs.
use strict;
use warnings;

use Bench;
use Servers;
use IPC::Open2;
use List::Util qw(sum);
use POSIX ();
use Time::HiRes qw(time sleep);

my $seconds = $ENV{BENCH_SECONDS} // 5;
my $rounds = 7;

# compare() of rates, and then of other figures of the same runs. wrk needs about as much of a processor as a server
# does, so where it is the busier one, the rate is wrk's, and the processor time of the server tells more.
sub compare_servers
{
	my ($name, %with) = @_;
	my %results;
	my $measure = sub {
		my ($side) = @_;
		return sub { push @{ $results{$side} }, wrk($with{$side}, @on_others); return $results{$side}[-1]{rate} };
	};
	compare($name, unit => '/s', goal => $with{rate}, rounds => $rounds, ours => $measure->('ours'), reference => $measure->('reference'));
	for my $figure ([ 'p99', 'ms', '99th percentile of the time to answer' ], [ 'cpu', 'us', 'processor time of the server a request' ])
	{
		my ($key, $unit, $text) = @$figure;
		my %values = map { my $side = $_; $side => [ map { $_->{$key} } @{ $results{$side} } ] } qw(ours reference);
		compare("... $text", unit => $unit, goal => $with{$key}, rounds => $rounds,
			ours => sub { shift @{ $values{ours} } }, reference => sub { shift @{ $values{reference} } });
	}
	remark(sprintf "server and client busy: %.0f %% and %.0f %%, of the reference %.0f %% and %.0f %%",
	  map { my $side = $_; map { my $key = $_; 100 * median(map { $_->{$key} } @{ $results{$side} }) } qw(busy client_busy) } qw(ours reference));
	return;
}

sub resident
{
	my ($server) = @_;
	slurp("/proc/$server->{pid}/status") =~ /^VmRSS:\s+(\d+) kB/m or die 'no VmRSS';
	return $1 * 1024;
}

heading('frontend');
fill();
my $program = 'frontend/shortenerd';
my @sample = map { 1 + int rand $links } 1 .. 1000;

# Cached.
my $nginx = nginx();
my $cached = shortenerd($program, @on_first, 'env', 'SHORTENERD_THREADS=1', 'SHORTENERD_CLICKS=off');
check($_, 1 .. $links) for $cached, $nginx;
my $before = metrics($cached);
compare_servers("cached redirects / nginx with a map, $links codes, $connections connections",
	rate => '>= 1.0', p99 => '<= 1.0', cpu => '<= 1.0', ours => $cached, reference => $nginx);
my $after = metrics($cached);
die 'not everything came from the cache' if $after->{cache_misses_total} != $before->{cache_misses_total};
die 'not everything was redirected' if grep { /^requests_total/ && !/302/ && $after->{$_} != $before->{$_} } keys %$after;
check($_, @sample) for $cached, $nginx;

# One visitor among many who pipeline and read nothing.
my $flooders = 2000;
sub flooded
{
	my ($server) = @_;
	my @pids;
	for (1 .. 4)
	{
		my $pid = fork // die "fork: $!";
		push(@pids, $pid), next if $pid;
		local $SIG{PIPE} = 'IGNORE';
		my @sockets = map { my $socket = connection($server->{port}); $socket->blocking(0); $socket } 1 .. $flooders / 4;
		my $bytes = request('/' . code(1)) x 100;
		while (getppid != 1)
		{
			syswrite $_, $bytes for @sockets;
			sleep 0.01;
		}
		POSIX::_exit(0);
	}
	sleep 2;
	my $socket = connection($server->{port});
	my @milliseconds;
	for (1 .. 200)
	{
		my $begin = time;
		print $socket request('/' . code(2));
		answer($socket);
		push @milliseconds, 1000 * (time - $begin);
	}
	kill 'KILL', @pids;
	waitpid $_, 0 for @pids;
	sleep 1;
	return (sort { $a <=> $b } @milliseconds)[197];
}
compare("ms to answer a visitor (p99) among $flooders who pipeline and read nothing / nginx", unit => 'ms', goal => '<= 1.0', rounds => 3,
	ours => sub { flooded($cached) }, reference => sub { flooded($nginx) });
stop($nginx->{pid});

my ($crow) = grep { -x } $ENV{BENCH_CROW} // (), '.build/frontend-crow/shortenerd';
if ($crow)
{
	my $other = shortenerd($crow, @on_first, 'env', 'SHORTENERD_THREADS=1', 'SHORTENERD_CLICKS=off');
	check($other, 1 .. $links);
	compare_servers('cached redirects, built on Crow / on Beast', ours => $other, reference => $cached);
	check($other, @sample);
	stop($other->{pid});
}
my $recording = shortenerd($program, @on_first, 'env', 'SHORTENERD_THREADS=1', 'SHORTENERD_CLICKS=on');
check($recording, 1 .. $links);
compare_servers('cached redirects, with clicks / without', rate => '>= 0.85', ours => $recording, reference => $cached);
my $clicks = metrics($recording);
remark(join ', ', map { "$_ $clicks->{$_}" } sort grep { /^clicks_/ } keys %$clicks);
stop($recording->{pid});
stop($cached->{pid});

# Uncached. Nobody is pinned: both sides are several processes, of the client, the database and the server between
# them. One thread, because that makes the largest batches.
my $uncached = shortenerd($program, 'env', 'SHORTENERD_THREADS=1', 'SHORTENERD_CLICKS=off', 'SHORTENERD_CACHE_SIZE=0');
my @sessions = split /\n/, sql("SELECT pid FROM pg_stat_activity WHERE application_name = 'shortenerd'");
my (@uncached_runs, @select_cpu);
check($uncached, @sample);
my $statement = 'SELECT redirect_status, original_url, id, expires_at FROM shortener.link WHERE workspace_id = 1 AND short_code = %s';
die 'the sides differ' if grep { index(sql(sprintf $statement, "'" . code($_) . "'"), '302|' . url($_) . '|') < 0 } 1, $links;
$before = metrics($uncached);
compare(
	"redirects without cache, $connections connections / prepared SELECT, 8 clients",
	unit => '/s', goal => '>= 1.5', rounds => $rounds,
	ours => sub {
		my $used = sum(map { cpu($_) } @sessions);
		push @uncached_runs, wrk($uncached);
		$uncached_runs[-1]{database_cpu} = 1e6 * (sum(map { cpu($_) } @sessions) - $used) / $uncached_runs[-1]{requests};
		return $uncached_runs[-1]{rate};
	},
	reference => sub {
		my $used = cpu_of_ended_backends();
		my $tps = pgbench('\set n random(' . code(1) . ', ' . code($links) . ")\n" . sprintf($statement, ':n') . ';',
			clients => 8, protocol => 'prepared', seconds => $seconds)->{tps};
		sleep 0.5;    # until the backends have ended
		push @select_cpu, 1e6 * (cpu_of_ended_backends() - $used) / ($tps * $seconds);
		return $tps;
	});
$after = metrics($uncached);
my ($codes, $batches) = map { $after->{"batch_codes_$_"} - $before->{"batch_codes_$_"} } qw(sum count);
die 'something was cached' if grep { /^cache_(hits|entries)/ && $after->{$_} } keys %$after;
remark(sprintf "%.1f codes a round trip, %.0f round trips a second; processor time a request: database %.1f us, server %.1f us, client %.1f us",
  $codes / $batches, $batches / ($rounds * $seconds),
  map { my $key = $_; median(map { $_->{$key} } @uncached_runs) } qw(database_cpu cpu client_cpu));
stop($uncached->{pid});
my @redirect_cpu = map { $_->{database_cpu} + $_->{cpu} } @uncached_runs;
compare("... processor time of server and database / of the backend of a SELECT", unit => 'us', goal => '<= 1', rounds => $rounds,
	ours => sub { shift @redirect_cpu }, reference => sub { shift @select_cpu });

# Memory. What the process needs for anything is there before the first measurement.
my $warm = 1000;
my $server = shortenerd($program, 'env', 'SHORTENERD_THREADS=1', 'SHORTENERD_CLICKS=off');
check($server, 1 .. $warm);
my $resident = resident($server);
check($server, $warm + 1 .. $links);
my $filled = ($links - $warm);
my $entries = metrics($server)->{'cache_entries{part="links"}'};
die "$entries cached links" if $entries != $links;
my $bytes = (resident($server) - $resident) / $filled - 100;
compare('bytes a cached link, beside its URL / 250', unit => 'B', goal => '<= 1', rounds => 1, ours => sub { $bytes }, reference => sub { 250 });

my $idle = 5000;
$resident = resident($server);
my @idle = map { connection($server->{port}) } 1 .. $idle;
for my $socket (@idle)
{
	print $socket request('/' . code(1));
	answer($socket);
}
my $open = metrics($server)->{connections};
die "$open connections" if $open < $idle;
my $megabytes = (resident($server) - $resident) / 1e6;
compare("MB for $idle idle connections / 100", unit => 'MB', goal => '<= 1', rounds => 1, ours => sub { $megabytes }, reference => sub { 100 });
@idle = ();

# Invalidation, from sending the COMMIT to the first new answer.
my $psql = open2(my $said, my $say, 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1');
my $socket = connection($server->{port});
my @milliseconds;
for my $change (1 .. 50)
{
	my $new = "https://example.com/changed/$change";
	print $say "BEGIN; UPDATE shortener.link SET original_url = '$new' WHERE workspace_id = 1 AND short_code = '" . code(1) . "';\n\\echo changed\n";
	<$said>;
	print $socket request('/' . code(1));
	my ($head) = answer($socket);
	die 'the change was seen too early' if index($head, "$new\r") >= 0;
	my $committed = time;
	print $say "COMMIT;\n";
	do
	{
		die 'the change is not seen' if time > $committed + 10;
		print $socket request('/' . code(1));
		($head) = answer($socket);
	} until index($head, "$new\r") >= 0;
	push @milliseconds, 1000 * (time - $committed);
}
close $say;
waitpid $psql, 0;
compare('ms from COMMIT to the new answer / 100', unit => 'ms', goal => '<= 1', rounds => 1, ours => sub { median(@milliseconds) }, reference => sub { 100 });
stop($server->{pid});
