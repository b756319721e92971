# The frontend against nginx with the same codes in a map, one thread each, the server on one processor and the client
# on the others; and against point SELECTs.
use strict;
use warnings;

use Bench;
use File::Temp;
use IO::Socket::INET;
use IPC::Open2;
use List::Util qw(sum);
use POSIX ();
use Time::HiRes qw(time sleep);

my $seconds = $ENV{BENCH_SECONDS} // 5;
my $links = 100_000;
my $connections = 64;
my $rounds = 7;
my $dir = File::Temp->newdir;
my $processors = `nproc`;
my @on_first = $processors > 1 ? ('taskset', '-c', 0) : ();
my @on_others = $processors > 1 ? ('taskset', '-c', '1-' . ($processors - 1)) : ();

# Codes as long as generated ones, and numbers, because pgbench has nothing else.
sub code { my ($n) = @_; return 1_000_000 + $n; }
sub url { my ($n) = @_; return substr('https://example.com/' . code($n) . '/' . 'x' x 100, 0, 100); }

# Starts a program and gives its process id.
my %running;
sub start
{
	my ($log, @command) = @_;
	my $pid = fork // die "fork: $!";
	if (!$pid)
	{
		open(STDERR, '>', $log) or die "$log: $!";
		exec @command or die "$command[0]: $!";
	}
	$running{$pid} = 1;
	return $pid;
}

sub stop
{
	my ($pid) = @_;
	kill 'TERM', $pid;
	waitpid $pid, 0;
	delete $running{$pid};
	return;
}
END { my $status = $?; stop($_) for keys %running; $? = $status; }

# Waits until what is asked for is there.
sub wait_until
{
	my ($what, $there) = @_;
	for my $try (1 .. 500)
	{
		my $found = $there->();
		return $found if $found;
		sleep 0.02;
	}
	die "no $what";
}

sub slurp { my ($file) = @_; open(my $handle, '<', $file) or die "$file: $!"; local $/; return <$handle> // ''; }

# A shortenerd on free ports: { pid, port, admin }.
sub shortenerd
{
	my ($program, @options) = @_;
	my $log = "$dir/shortenerd.log";
	unlink $log;
	my $pid = start($log, @options, $program, '--database', "host=$ENV{PGHOST} user=$ENV{PGUSER} dbname=$ENV{PGDATABASE}",
		'--listen', '127.0.0.1:0', '--admin-listen', '127.0.0.1:0');
	my $port = sub { my ($what) = @_; return wait_until($what, sub { -e $log && slurp($log) =~ m{$what on http://127.0.0.1:(\d+)} && $1 }) };
	my $server = { pid => $pid, port => $port->('serving links'), admin => $port->('serving /healthz, /readyz and /metrics') };
	wait_until('database', sub { metrics($server)->{database_connections} && metrics($server)->{listening} });
	return $server;
}

sub nginx
{
	my $socket = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1') or die "socket: $!";
	my $port = $socket->sockport;
	close $socket;
	open(my $map, '>', "$dir/map") or die "map: $!";
	print $map '/', code($_), ' ', url($_), ";\n" for 1 .. $links;
	close $map;
	my $temp = join "\n", map { "${_}_temp_path $dir/$_;" } qw(client_body proxy fastcgi uwsgi scgi);
	open(my $config, '>', "$dir/nginx.conf") or die "nginx.conf: $!";
	print $config <<"CONF";
worker_processes 1;
daemon off;
pid $dir/nginx.pid;
events { worker_connections 8192; }
http {
	$temp
	access_log off;
	server_tokens off;
	keepalive_requests 1000000000;
	map_hash_max_size 262144;
	map_hash_bucket_size 128;
	map \$uri \$location { include $dir/map; }
	server {
		listen 127.0.0.1:$port;
		location / {
			add_header Cache-Control "private, no-store";
			add_header X-Robots-Tag noindex;
			return 302 \$location;
		}
	}
}
CONF
	close $config;
	my $pid = start("$dir/nginx.log", @on_first, '.build/peers/bin/nginx', '-p', "$dir", '-c', "$dir/nginx.conf", '-e', 'stderr');
	wait_until('nginx', sub { IO::Socket::INET->new("127.0.0.1:$port") });
	return { pid => $pid, port => $port };
}

sub connection
{
	my ($port) = @_;
	return IO::Socket::INET->new(PeerAddr => "127.0.0.1:$port") // die "connect: $!";
}

sub request { my ($path) = @_; return "GET $path HTTP/1.1\r\nHost: bench.example\r\n\r\n"; }

# Reads one answer: its head and its body.
sub answer
{
	my ($socket) = @_;
	local $/ = "\r\n\r\n";
	my $head = <$socket> // die 'the connection was closed';
	my $body = '';
	read $socket, $body, $1 if $head =~ /^Content-Length: (\d+)/mi;
	return ($head, $body);
}

# The samples of /metrics, without their prefix.
sub metrics
{
	my ($server) = @_;
	my $socket = connection($server->{admin});
	print $socket request('/metrics');
	my (undef, $text) = answer($socket);
	return { $text =~ /^shortenerd_(\S+) (\S+)/mg };
}

# Asks for these codes and dies unless each is answered with 302 and its URL.
sub check
{
	my ($server, @numbers) = @_;
	my @sockets = map { connection($server->{port}) } 1 .. $connections;
	while (my @some = splice @numbers, 0, @sockets * 16)
	{
		my $next = 0;
		for my $n (@some)
		{
			my $socket = $sockets[ $next++ % @sockets ];
			print $socket request('/' . code($n));
		}
		$next = 0;
		for my $n (@some)
		{
			my ($head) = answer($sockets[ $next++ % @sockets ]);
			my $url = url($n);
			die "wrong answer for $n: $head" unless $head =~ m{^HTTP/1\.1 302 } && $head =~ /^Location: \Q$url\E\r$/m;
		}
	}
	return;
}

# Seconds of processor time of a process and its children.
sub cpu
{
	my ($pid) = @_;
	return sum(map { (split ' ', slurp($_) =~ s/.*\) //r)[ 11, 12 ] } grep { -e } map { "/proc/$_/stat" } $pid, split ' ', slurp("/proc/$pid/task/$pid/children")) / 100;
}

# Runs wrk over random codes; gives { requests, rate, p99 in ms, cpu and client_cpu: processor time of the server and of
# wrk in microseconds a request, busy and client_busy: how much of a processor they took }.
sub wrk
{
	my ($server, @options) = @_;
	if (!-e "$dir/codes.lua")
	{
		open(my $script, '>', "$dir/codes.lua") or die "codes.lua: $!";
		print $script <<"LUA";
local requests = {}
function init()
	math.randomseed(os.time())
	wrk.headers["Host"] = "bench.example"
	for n = 1, $links do requests[n] = wrk.format(nil, "/" .. 1000000 + n) end
end
function request() return requests[math.random($links)] end
LUA
		close $script;
	}
	my ($server_before, $client_before) = (cpu($server->{pid}), sum((times)[ 2, 3 ]));
	open(my $output, '-|', @options, 'wrk', '-t', 1, '-c', $connections, '-d', "${seconds}s", '--latency', '-s', "$dir/codes.lua",
		"http://127.0.0.1:$server->{port}") or die "wrk: $!";
	my $text = join '', <$output>;
	close $output or die "wrk failed: $text";
	my ($server_cpu, $client_cpu) = (cpu($server->{pid}) - $server_before, sum((times)[ 2, 3 ]) - $client_before);
	die "wrk had errors: $text" if $text =~ /Socket errors|Non-2xx/;
	my ($requests) = $text =~ m{^ +(\d+) requests in }m or die "wrk failed: $text";
	my ($rate) = $text =~ m{^Requests/sec: +([\d.]+)}m or die "wrk failed: $text";
	my ($p99, $unit) = $text =~ /^ +99% +([\d.]+)(us|ms|s)$/m or die "wrk failed: $text";
	return {
		requests => $requests,
		rate => $rate,
		p99 => $p99 * { us => 0.001, ms => 1, s => 1000 }->{$unit},
		cpu => 1e6 * $server_cpu / $requests,
		client_cpu => 1e6 * $client_cpu / $requests,
		busy => $server_cpu / $seconds,
		client_busy => $client_cpu / $seconds };
}

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
	printf "... server and client busy: %.0f %% and %.0f %%, of the reference %.0f %% and %.0f %%\n",
	  map { my $side = $_; map { my $key = $_; 100 * median(map { $_->{$key} } @{ $results{$side} }) } qw(busy client_busy) } qw(ours reference);
	return;
}

sub resident
{
	my ($server) = @_;
	slurp("/proc/$server->{pid}/status") =~ /^VmRSS:\s+(\d+) kB/m or die 'no VmRSS';
	return $1 * 1024;
}

heading('frontend');
sql('CALL shortener.install()');
sql("INSERT INTO shortener.link (workspace_id, short_code, original_url, redirect_status) SELECT 1, 1000000 + n,"
	  . " rpad('https://example.com/' || 1000000 + n || '/', 100, 'x'), 302 FROM generate_series(1, $links) n");
sql('VACUUM ANALYZE shortener.link');
my $program = 'frontend/shortenerd';
my @sample = map { 1 + int rand $links } 1 .. 1000;

# Cached.
my $nginx = nginx();
my $cached = shortenerd($program, @on_first, 'env', 'SHORTENERD_THREADS=1');
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

my ($crow) = grep { defined && -x } $ENV{SHORTENERD_CROW}, '.build/frontend-crow/shortenerd';
if ($crow)
{
	my $other = shortenerd($crow, @on_first, 'env', 'SHORTENERD_THREADS=1');
	check($other, 1 .. $links);
	compare_servers('cached redirects, built on Crow / on Beast', ours => $other, reference => $cached);
	check($other, @sample);
	stop($other->{pid});
}
stop($cached->{pid});

# Uncached. Nobody is pinned: both sides are several processes, of the client, the database and the server between
# them. One thread, because that makes the largest batches.
my $uncached = shortenerd($program, 'env', 'SHORTENERD_THREADS=1', 'SHORTENERD_CACHE_SIZE=0');
my @sessions = split /\n/, sql("SELECT pid FROM pg_stat_activity WHERE application_name = 'shortenerd'");
my @uncached_runs;
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
		return pgbench('\set n random(' . code(1) . ', ' . code($links) . ")\n" . sprintf($statement, ':n') . ';',
			clients => 8, protocol => 'prepared', seconds => $seconds)->{tps};
	});
$after = metrics($uncached);
my ($codes, $batches) = map { $after->{"batch_codes_$_"} - $before->{"batch_codes_$_"} } qw(sum count);
die 'something was cached' if grep { /^cache_(hits|entries)/ && $after->{$_} } keys %$after;
printf "... %.1f codes a round trip, %.0f round trips a second; processor time a request: database %.1f us, server %.1f us, client %.1f us\n",
  $codes / $batches, $batches / ($rounds * $seconds),
  map { my $key = $_; median(map { $_->{$key} } @uncached_runs) } qw(database_cpu cpu client_cpu);
stop($uncached->{pid});

# Memory. What the process needs for anything is there before the first measurement.
my $warm = 1000;
my $server = shortenerd($program, 'env', 'SHORTENERD_THREADS=1');
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
