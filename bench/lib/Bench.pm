package Bench;

# Measures two things alternately and prints their ratio: one row of the table that `make bench` prints. Each row also goes
# to $ENV{BENCH_RESULTS}/rows, a line of JSON; a plot to a file beside it.

use strict;
use warnings;

use Exporter 'import';
use File::Temp;
use JSON::PP;
use List::Util qw(max min);

our @EXPORT = qw(compare heading median pgbench plot remark sql);

my $results = $ENV{BENCH_RESULTS};
my $topic;

sub record
{
	my (%row) = @_;
	return unless $results;
	open(my $rows, '>>', "$results/rows") or die "$results/rows: $!";
	print $rows JSON::PP->new->canonical->encode({ topic => $topic, %row }), "\n";
	return;
}

$| = 1;

sub median
{
	my @sorted = sort { $a <=> $b } @_;
	return ($sorted[ $#sorted / 2 ] + $sorted[ @sorted / 2 ]) / 2;
}

sub heading
{
	($topic) = @_;
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
	record(name => $name, unit => $with{unit}, ours => median(@ours), reference => median(@reference), ratio => $ratio,
		lowest => $ratio[0], highest => $ratio[-1], rounds => scalar @ratio, goal => $with{goal},
		met => $goal =~ / met$/ ? JSON::PP::true : $goal =~ / MISSED$/ ? JSON::PP::false : undef);
	return $ratio;
}

# A line of figures that belong to the row above it.
sub remark
{
	my ($text) = @_;
	print "... $text\n";
	record(remark => $text);
	return;
}

my @colours = ('#2563eb', '#d97706', '#059669', '#7c3aed');

# plot(file, title => …, x => label, y => label, series => [ [ name, [ x, y ], … ], … ]): an SVG with a logarithmic x axis and
# a y axis from zero.
sub plot
{
	my ($file, %with) = @_;
	for my $series (@{ $with{series} })
	{
		my ($name, @points) = @$series;
		record(plot => $file, name => $name, x => $with{x}, y => $with{y}, points => \@points);
	}
	return unless $results;
	my ($width, $height, $left, $bottom, $top, $right) = (660, 400, 80, 60, 50, 40);
	my @points = map { @$_[ 1 .. $#$_ ] } @{ $with{series} };
	my ($from, $to) = map { log } min(map { $_->[0] } @points), max(map { $_->[0] } @points);
	my $highest = max(map { $_->[1] } @points) || 1;
	my $step = 10**int(log($highest) / log(10) - ($highest < 1));
	$step = (grep { $highest / $_ <= 5 } map { $_ * $step } 0.2, 0.5, 1, 2)[0];
	$highest = $step * int($highest / $step + 0.999999);
	my $x = sub { return $left + ($width - $left - $right) * ($to > $from ? (log($_[0]) - $from) / ($to - $from) : 0.5) };
	my $y = sub { return $height - $bottom - ($height - $top - $bottom) * $_[0] / $highest };
	my $escape = sub { my ($text) = @_; $text =~ s/&/&amp;/g; $text =~ s/</&lt;/g; return $text };
	my $number = sub { my $text = sprintf '%.12g', $_[0]; 1 while $text =~ s/^(\d+)(\d{3})/$1,$2/; return $text };
	my @svg = (qq{<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 $width $height" width="$width" height="$height" font-family="sans-serif" font-size="13">});
	push @svg, '<style>text { fill: #1f2937 } .grid { stroke: #d1d5db } @media (prefers-color-scheme: dark) { text { fill: #e5e7eb } .grid { stroke: #4b5563 } }</style>';
	push @svg, sprintf '<text x="%d" y="24" font-size="16">%s</text>', $left, $escape->($with{title});
	for (my $tick = 0; $tick <= $highest * 1.0001; $tick += $step)
	{
		push @svg, sprintf '<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>', $left, $width - $right, ($y->($tick)) x 2;
		push @svg, sprintf '<text x="%d" y="%.1f" text-anchor="end">%s</text>', $left - 8, $y->($tick) + 4, $number->($tick);
	}
	my %ticks = map { $_->[0] => 1 } @points;
	push @svg, sprintf '<text x="%.1f" y="%d" text-anchor="middle">%s</text>', $x->($_), $height - $bottom + 20, $number->($_) for sort { $a <=> $b } keys %ticks;
	push @svg, sprintf '<text x="%d" y="%d" text-anchor="middle">%s</text>', ($left + $width - $right) / 2, $height - 14, $escape->($with{x});
	push @svg, sprintf '<text transform="translate(18 %d) rotate(-90)" text-anchor="middle">%s</text>', ($height - $bottom + $top) / 2, $escape->($with{y});
	for my $i (0 .. $#{ $with{series} })
	{
		my ($name, @line) = @{ $with{series}[$i] };
		my $colour = $colours[ $i % @colours ];
		push @svg, sprintf '<polyline fill="none" stroke="%s" stroke-width="2" points="%s"/>', $colour, join ' ', map { sprintf '%.1f,%.1f', $x->($_->[0]), $y->($_->[1]) } @line;
		push @svg, sprintf '<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>', $x->($_->[0]), $y->($_->[1]), $colour for @line;
		push @svg, sprintf '<rect x="%d" y="%d" width="12" height="3" fill="%s"/>', $left + 120 * $i, $top - 14, $colour;
		push @svg, sprintf '<text x="%d" y="%d">%s</text>', $left + 120 * $i + 18, $top - 8, $escape->($name);
	}
	open(my $out, '>', "$results/$file.svg") or die "$results/$file.svg: $!";
	print $out join("\n", @svg, '</svg>'), "\n";
	close $out or die "$results/$file.svg: $!";
	return;
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
