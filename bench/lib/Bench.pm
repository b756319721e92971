package Bench;

# Measures two things alternately and prints their ratio: one row of the table that `make bench` gives.

use strict;
use warnings;

use Exporter 'import';
use File::Temp;

our @EXPORT = qw(compare heading pgbench sql median);

$| = 1;

sub median
{
	my @sorted = sort { $a <=> $b } @_;
	return ($sorted[ $#sorted / 2 ] + $sorted[ @sorted / 2 ]) / 2;
}

sub heading
{
	my ($topic) = @_;
	printf "\n%-58s %12s %12s %7s  %-15s %s\n", $topic, 'ours', 'reference', 'ratio', '(lowest-highest)', 'goal';
	return;
}

# compare(name, unit => 'ms', ours => sub, reference => sub [, goal => '<= 1.1'] [, rounds => 7])
# Both subs give a number in the same unit. The ratio is the median of the rounds' ratios.
sub compare
{
	my ($name, %with) = @_;
	my (@ours, @reference, @ratio);
	for my $round (1 .. $with{rounds} // 7)
	{
		# Whoever goes first in one round goes second in the next.
		my @order = (\@ours, \@reference);
		for my $side ($round % 2 ? (0, 1) : (1, 0))
		{
			push @{ $order[$side] }, ($side ? $with{reference} : $with{ours})->();
		}
		push @ratio, $ours[-1] / $reference[-1];
	}
	@ratio = sort { $a <=> $b } @ratio;
	my $ratio = median(@ratio);
	my $goal = 'none';
	if (defined $with{goal})
	{
		my ($operator, $limit) = split ' ', $with{goal};
		my $met = $operator eq '<=' ? $ratio <= $limit : $ratio >= $limit;
		$goal = "$with{goal} " . ($met ? 'met' : 'MISSED');
	}
	printf "%-58s %12s %12s %7.2f  (%.2f-%.2f)%s %s\n", $name, map({ sprintf '%.4g %s', $_, $with{unit} } median(@ours), median(@reference)),
	  $ratio, $ratio[0], $ratio[-1], ' ' x 3, $goal;
	return $ratio;
}

# Runs a script through pgbench: pgbench(script, transactions => 10 | seconds => 5, clients => 1, protocol => 'simple',
# define => ['variable=value']). Gives { ms => latency of a transaction, tps => transactions a second }.
sub pgbench
{
	my ($script, %with) = @_;
	my $file = File::Temp->new(SUFFIX => '.sql');
	print $file $script;
	close $file;
	my $clients = $with{clients} // 1;
	my @command = ('pgbench', '-n', '-c', $clients, '-j', $clients < 2 ? 1 : 2, '-M', $with{protocol} // 'simple');
	push @command, $with{seconds} ? ('-T', $with{seconds}) : ('-t', $with{transactions} // 1);
	push @command, map { ('-D', $_) } @{ $with{define} // [] };
	open(my $output, '-|', @command, '-f', $file->filename) or die "pgbench: $!";
	my $text = join '', <$output>;
	close $output or die "pgbench failed: $text";
	my ($ms) = $text =~ /^latency average = ([\d.]+) ms/m;
	my ($tps) = $text =~ /^tps = ([\d.]+)/m;
	die "pgbench failed: $text" if $text =~ /aborted/ || !$tps;
	return { ms => $ms, tps => $tps };
}

# Runs a statement and gives what it prints.
sub sql
{
	my ($statement) = @_;
	open(my $output, '-|', 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-c', $statement) or die "psql: $!";
	my $text = join '', <$output>;
	close $output or die "psql failed: $statement";
	chomp $text;
	return $text;
}

1;
