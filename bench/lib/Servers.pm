package Servers;

# The frontend and nginx with the same codes in a map, one thread each, the server on one processor and its client, wrk,
# on the others.

use strict;
use warnings;

use Bench;
use Exporter 'import';
use File::Temp;
use IO::Socket::INET;
use List::Util qw(sum);
use Shortenerd;
use Time::HiRes qw(time sleep);

our @EXPORT = qw(answer check code connection cpu cpu_of_ended_backends fill metrics nginx request shortenerd slurp start stop url wait_until wrk $connections $links @on_first @on_others);

my $seconds = $ENV{BENCH_SECONDS} // 5;
our $links = 100_000;
our $connections = 64;
our $dir = File::Temp->newdir;
my $processors = `nproc`;
our @on_first = $processors > 1 ? ('taskset', '-c', 0) : ();
our @on_others = $processors > 1 ? ('taskset', '-c', '1-' . ($processors - 1)) : ();

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
	my $pid = launch($log, [ @options, $program ], database => "host=$ENV{PGHOST} user=$ENV{PGUSER} dbname=$ENV{PGDATABASE}");
	$running{$pid} = 1;
	my $server = { pid => $pid };
	wait_until('ports', sub { -e $log && (@$server{qw(port admin)} = find_ports(slurp($log))) });
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

# Seconds of processor time of all backends that have ended.
sub cpu_of_ended_backends
{
	my ($postmaster) = slurp("$ENV{PGHOST}/data/postmaster.pid") =~ /^(\d+)/;
	return sum((split ' ', slurp("/proc/$postmaster/stat") =~ s/.*\) //r)[ 13, 14 ]) / 100;
}

# The links, in the database that the servers read and for nginx.
sub fill
{
	sql('CALL shortener.install()');
	sql("INSERT INTO shortener.link (workspace_id, short_code, original_url, redirect_status) SELECT 1, 1000000 + n,"
		  . " rpad('https://example.com/' || 1000000 + n || '/', 100, 'x'), 302 FROM generate_series(1, $links) n");
	sql('VACUUM ANALYZE shortener.link');
	return;
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

1;
