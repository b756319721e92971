# A TCP proxy in a process of its own, before a database: what the server sends arrives later by a delay that can be
# changed, and all connections can be cut.
package SlowProxy;
use strict;
use warnings;

use IO::Select;
use IO::Socket::INET;
use IO::Socket::UNIX;
use POSIX ();
use Time::HiRes qw(sleep time);

# To the server of the cluster; `seconds` is the delay.
sub start
{
	my ($class, $node, $seconds) = @_;
	my $listener = IO::Socket::INET->new(Listen => 64, LocalAddr => '127.0.0.1', ReuseAddr => 1) or die "listen: $!";
	pipe my $commands, my $control or die "pipe: $!";
	my $pid = fork // die "fork: $!";
	if ($pid == 0)
	{
		close $control;
		eval { serve($listener, $commands, $node->host . '/.s.PGSQL.' . $node->port, $seconds); 1 } or print STDERR "proxy: $@";
		POSIX::_exit(1);
	}
	close $commands;
	$control->autoflush(1);
	return bless { pid => $pid, control => $control, port => $listener->sockport }, $class;
}

sub connstr { my ($self, $user) = @_; return "host=127.0.0.1 port=$self->{port} dbname=postgres user=" . getpwuid $>; }
sub delay { my ($self, $seconds) = @_; print { $self->{control} } "delay $seconds\n"; return; }
sub cut { my ($self) = @_; print { $self->{control} } "cut\n"; return; }

sub serve
{
	my ($listener, $commands, $path, $delay) = @_;
	my $select = IO::Select->new($listener, $commands);
	my (%other, %is_server, %handles);
	my @later; # [ time, handle, bytes ]
	my $end = sub {
		my ($handle) = @_;
		for ($handle, delete $other{$handle})
		{
			next unless $_;
			$select->remove($_);
			delete $other{$_};
			delete $handles{$_};
			delete $is_server{$_};
			$_->close;
		}
	};
	for (;;)
	{
		my $wait = @later ? $later[0][0] - time : 60;
		for my $handle ($select->can_read($wait > 0 ? $wait : 0))
		{
			if ($handle == $listener)
			{
				my $client = $listener->accept or next;
				my $server = IO::Socket::UNIX->new(Peer => $path) or do { $client->close; next };
				@other{ $client, $server } = ($server, $client);
				@handles{ $client, $server } = ($client, $server);
				$is_server{$server} = 1;
				$select->add($client, $server);
			}
			elsif ($handle == $commands)
			{
				sysread $commands, my $lines, 4096 or POSIX::_exit(0);
				for (split /\n/, $lines)
				{
					if (/^delay (\S+)/) { $delay = $1 }
					else { @later = (); my @all = values %handles; $end->($_) for @all }
				}
			}
			elsif (my $to = $other{$handle})
			{
				if (!sysread $handle, my $bytes, 65536) { $end->($handle) }
				elsif ($is_server{$handle}) { push @later, [ time + $delay, $to, $bytes ] }
				else { syswrite $to, $bytes }
			}
		}
		while (@later && $later[0][0] <= time)
		{
			my (undef, $to, $bytes) = @{ shift @later };
			syswrite $to, $bytes if $other{$to};
		}
	}
}

sub DESTROY
{
	my ($self) = @_;
	local $?;
	close $self->{control};
	kill 'KILL', $self->{pid};
	waitpid $self->{pid}, 0;
	return;
}

1;
