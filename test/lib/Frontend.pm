# A running shortenerd, the program that $ENV{SHORTENERD} names, and clients of it on plain sockets.
# Every wait has a deadline, generous because a deadline that passes is a failure and not a measurement.
package Frontend;
use strict;
use warnings;

use Carp qw(confess);
use Exporter qw(import);
use IO::Socket::INET;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Shortenerd;
use POSIX qw(WNOHANG);
use Test::More;
use Time::HiRes qw(sleep time);

our @EXPORT = qw(crow database eventually run_shortenerd);

my $patience = 30;
my $made = 0;
my %running;

# Whether the program is built on Crow, whose server is looser; docs/frontend.md says where.
sub crow { return ($ENV{HTTP} // '') eq 'crow'; }

# A cluster with the extension and its tables in database postgres.
sub database
{
	my ($name, @settings) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init(allows_streaming => 1);
	$node->append_conf('postgresql.conf', join "\n", 'fsync = off', 'max_connections = 50', @settings);
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION shortener CASCADE; CALL shortener.install()');
	return $node;
}

# Asks again until the answer is true, and gives it.
sub eventually(&;$)
{
	my ($ask, $seconds) = @_;
	my $end = time + ($seconds // $patience);
	for (;;)
	{
		my $answer = $ask->();
		return $answer if $answer || time > $end;
		sleep 0.02;
	}
}

# Runs the program to its end: exit status, standard output, standard error.
sub run_shortenerd
{
	my ($environment, @flags) = @_;
	my ($out, $err) = ('', '');
	local %ENV = (%ENV, %$environment);
	IPC::Run::run([ $ENV{SHORTENERD}, @flags ], '<', '/dev/null', '>', \$out, '2>', \$err, IPC::Run::timeout($patience));
	return ($? >> 8, $out, $err);
}

# Starts it; `database` is a connection string, `port` one to listen on, `threads` are two unless given, `clicks` are off
# unless asked for, `flags` and `environment` are added. Returns when it listens, and unless `ready` is false when it is
# ready.
sub start
{
	my ($class, %options) = @_;
	my $log = PostgreSQL::Test::Utils::tempdir() . '/shortenerd.' . ++$made . '.log';
	my $threads = $options{threads} // 2;
	append_to_file($log, '');
	my $pid = launch($log, [ $ENV{SHORTENERD} ], %options, 
		flags => [ '--threads', $threads, '--clicks', $options{clicks} ? 'on' : 'off', @{ $options{flags} // [] } ]);
	$running{$pid} = 1;
	my $self = bless { pid => $pid, log_file => $log, threads => $threads }, $class;
	eventually { (@$self{qw(port admin)} = find_ports($self->log)) || !$self->alive };
	$self->{admin} or confess "shortenerd did not start:\n" . $self->log;
	if ($options{ready} // 1)
	{
		$self->until_ready or confess "shortenerd did not get ready:\n" . $self->log;
	}
	return $self;
}

sub log { my ($self) = @_; return slurp_file($self->{log_file}); }

# Whether it runs; its exit status is kept.
sub alive
{
	my ($self) = @_;
	return 0 if exists $self->{status};
	return 1 if waitpid($self->{pid}, WNOHANG) == 0;
	$self->{status} = $?;
	delete $running{ $self->{pid} };
	return 0;
}

sub signal { my ($self, $name) = @_; return kill $name, $self->{pid}; }

# Waits for its end: the wait status, or undef.
sub wait_for_end
{
	my ($self, $seconds) = @_;
	eventually { !$self->alive } $seconds;
	return $self->{status};
}

# Stops it as systemd does, which has to succeed.
sub stop
{
	my ($self) = @_;
	$self->signal('TERM');
	my $status = $self->wait_for_end;
	is($status, 0, 'SIGTERM ends shortenerd well') or diag($self->log);
	return;
}

# Ready in all threads, and listening: from here on changes are heard.
sub until_ready
{
	my ($self, $seconds) = @_;
	my $ready = eventually {
		my $metrics = $self->metrics;
		!$self->alive || ($metrics->{database_connections} // 0) == $self->{threads} && $metrics->{listening} && $self->admin('/readyz')->{status} == 200
	} $seconds;
	return $ready && $self->alive;
}

sub connect { my ($self) = @_; return Frontend::Client->new($self->{port}); }

# One request on a connection of its own; see Frontend::Client::request.
sub request { my ($self, @request) = @_; return $self->connect->request(@request); }
sub get { my ($self, $target, @fields) = @_; return $self->request('GET', $target, @fields); }
sub status { my ($self, $target, @fields) = @_; return $self->get($target, @fields)->{status}; }
sub location { my ($self, $target, @fields) = @_; return $self->get($target, @fields)->{location}; }

# HEAD requests, given as their bytes, pipelined over many connections: how often each status came.
sub many
{
	my ($self, $connections, @requests) = @_;
	my @clients = map { $self->connect } 1 .. $connections;
	my %statuses;
	while (@requests)
	{
		# Crow 1.2 does not know pipelining, and sends a body after HEAD of what is gone.
		@clients = map { $self->connect } 1 .. $connections if crow();
		my %expected;
		for my $number (0 .. $#clients)
		{
			my @part = splice @requests, 0, crow() ? 1 : 50 or last;
			$expected{$number} = @part;
			$clients[$number]->send(join '', @part);
		}
		for my $number (keys %expected)
		{
			$statuses{$_}++ for $clients[$number]->head_statuses($expected{$number});
		}
	}
	return \%statuses;
}

sub admin { my ($self, $target, $method) = @_; return Frontend::Client->new($self->{admin})->request($method // 'GET', $target); }

# Samples by name with labels, without the common prefix: cache_hits_total{kind="gone"}.
sub metrics
{
	my ($self) = @_;
	return { map { /^shortenerd_(\S+) (\S+)$/ ? ($1 => $2) : () } split /\n/, $self->admin('/metrics')->{body} // '' };
}

# What the counters grew by while the code ran, those that grew.
sub growth
{
	my ($self, $code) = @_;
	my $before = $self->metrics;
	$code->();
	my $after = $self->metrics;
	return { map { $after->{$_} == $before->{$_} ? () : ($_ => $after->{$_} - $before->{$_}) } keys %$after };
}

# Runs what notifies of one change, and waits until it was heard: what is cached from here on stays.
sub hear
{
	my ($self, $code) = @_;
	my $before = $self->metrics->{notifications_total};
	$code->();
	eventually { $self->metrics->{notifications_total} > $before } or confess 'no notification';
	return;
}

# Kilobytes in memory.
sub resident { my ($self) = @_; return slurp_file("/proc/$self->{pid}/status") =~ /^VmRSS:\s+(\d+)/m ? $1 : undef; }

END
{
	my $status = $?;
	kill 'KILL', $_ for keys %running;
	waitpid $_, 0 for keys %running;
	$? = $status;
}

package Frontend::Client;

use Errno qw(EAGAIN EINTR EWOULDBLOCK);
use IO::Select;
use Time::HiRes qw(time);

sub new
{
	my ($class, $port) = @_;
	my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, Timeout => $patience);
	$socket->blocking(0) if $socket;
	return bless { socket => $socket, buffer => '', ended => !$socket }, $class;
}

sub close { my ($self) = @_; CORE::close $self->{socket} if $self->{socket}; $self->{ended} = 1; return; }

# Sends what the other side takes within the time; false if it did not take all. A client that only sends would
# fill both directions, so it also reads what has come.
sub send
{
	my ($self, $bytes, $seconds) = @_;
	return 0 unless $self->{socket};
	local $SIG{PIPE} = 'IGNORE';
	my $end = time + ($seconds // $patience);
	while (length $bytes)
	{
		my $sent = syswrite $self->{socket}, $bytes;
		if (defined $sent)
		{
			substr $bytes, 0, $sent, '';
			next;
		}
		return 0 unless $!{EAGAIN} || $!{EWOULDBLOCK} || $!{EINTR};
		my (undef, $writable) = IO::Select->select(IO::Select->new($self->{socket}), IO::Select->new($self->{socket}), undef, $end - time);
		return 0 if time >= $end;
		$self->take unless $writable && @$writable;
	}
	return 1;
}

# Reads once what there is. False at the end.
sub take
{
	my ($self) = @_;
	return 0 if $self->{ended};
	my $got = sysread $self->{socket}, $self->{buffer}, 65536, length $self->{buffer};
	return 1 if $got || !defined $got && ($!{EAGAIN} || $!{EWOULDBLOCK} || $!{EINTR});
	$self->{ended} = 1;
	$self->{reset} = !defined $got;
	return 0;
}

# Waits for more bytes. False at the end or after the deadline.
sub more
{
	my ($self, $end) = @_;
	return 0 if $self->{ended} || time >= $end;
	return 0 unless IO::Select->new($self->{socket})->can_read($end - time);
	return $self->take;
}

# The next answer, or an empty hash if none came: status, location, the other fields by name in lower case under
# `fields`, every one as an array, and the body. `method` is what was asked with.
sub response
{
	my ($self, $method, $seconds) = @_;
	my $end = time + ($seconds // $patience);
	for (;;)
	{
		my $head_end;
		1 until ($head_end = index $self->{buffer}, "\r\n\r\n") >= 0 || !$self->more($end);
		return {} if $head_end < 0;
		my ($line, @lines) = split /\r\n/, substr $self->{buffer}, 0, $head_end;
		substr $self->{buffer}, 0, $head_end + 4, '';
		my ($version, $status) = $line =~ m{^HTTP/(1\.[01]) (\d{3}) } or return { malformed => $line };
		my %fields;
		for (@lines)
		{
			/^([!#-'*+.^-z|~0-9A-Z-]+): *(.*?) *$/ or return { malformed => $_ };
			push @{ $fields{ lc $1 } }, $2;
		}
		next if $status < 200;
		my %response = (status => $status, fields => \%fields, location => $fields{location}[0], body => '');
		my $length = $fields{'content-length'}[0];
		if (($method // 'GET') ne 'HEAD' && $status != 204 && $status != 304)
		{
			1 while (!defined $length || length $self->{buffer} < $length) && $self->more($end);
			$length //= length $self->{buffer};
			return { malformed => 'body' } if length $self->{buffer} < $length;
			$response{body} = substr $self->{buffer}, 0, $length, '';
		}
		return \%response;
	}
}

# Crow ends the answer to HEAD of a page with its status once more.
my $crow_line = Frontend::crow() ? qr/(?:\d{3} [A-Za-z ]+\r\n)?/ : qr//;

# The statuses of so many answers to HEAD, or fewer if no more come.
sub head_statuses
{
	my ($self, $count) = @_;
	my $end = time + $patience;
	my @statuses;
	for (;;)
	{
		push @statuses, $1 while @statuses < $count && $self->{buffer} =~ m{\GHTTP/1\.1 (\d{3}) .*?\r\n\r\n$crow_line}gcs;
		$self->{buffer} = substr $self->{buffer}, pos $self->{buffer} // 0;
		return @statuses if @statuses >= $count || !$self->more($end);
	}
}

# The bytes of a request. Fields are NAME => VALUE pairs; Host is ours unless one is given, undef sends none; a
# field `body` is the body, with its length; a field `version` is 1.0 or 1.1.
sub format_request
{
	my ($method, $target, @fields) = @_;
	my ($version, $body, $host) = ('1.1', '', 'links.example');
	my @lines;
	while (my ($name, $value) = splice @fields, 0, 2)
	{
		if ($name eq 'version') { $version = $value }
		elsif ($name eq 'body') { $body = $value; push @lines, 'Content-Length: ' . length $body }
		elsif (lc $name eq 'host') { $host = $value }
		else { push @lines, "$name: $value" }
	}
	unshift @lines, "Host: $host" if defined $host;
	return join "\r\n", "$method $target HTTP/$version", @lines, '', $body;
}

sub request
{
	my ($self, $method, $target, @fields) = @_;
	$self->send(format_request($method, $target, @fields)) or return {};
	return $self->response($method);
}

# Whether the other side has closed the connection, or does in time, without another byte.
sub ends
{
	my ($self, $seconds) = @_;
	my $end = time + ($seconds // $patience);
	1 while $self->more($end);
	return $self->{ended} && $self->{buffer} eq '';
}

1;
