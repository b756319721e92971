# How a shortenerd is started on free ports, for tests and benchmarks.
package Shortenerd;
use strict;
use warnings;

use Exporter qw(import);
use POSIX ();

our @EXPORT = qw(find_ports launch);

# Starts a command that ends with the program, for example with `taskset` before it; its standard error goes to the log.
# Gives the process id.
sub launch
{
	my ($log, $command, %with) = @_;
	my @flags = ('--listen', '127.0.0.1:' . ($with{port} // 0), '--admin-listen', '127.0.0.1:0', @{ $with{flags} // [] });
	unshift @flags, '--database', $with{database} if defined $with{database};
	my $pid = fork // die "fork: $!";
	return $pid if $pid;
	open STDERR, '>>', $log or die "$log: $!";
	open STDIN, '<', '/dev/null' or die $!;
	%ENV = (%ENV, %{ $with{environment} // {} });
	{ exec @$command, @flags }
	print STDERR "$command->[0]: $!\n";
	POSIX::_exit(127);
}

# The ports for links and for metrics that it says in its log, or nothing before it does.
sub find_ports
{
	my ($log) = @_;
	my ($links) = $log =~ m{serving links on http:\S+:(\d+)$}m or return;
	my ($admin) = $log =~ m{serving /healthz.* on http:\S+:(\d+)$}m or return;
	return ($links, $admin);
}

1;
