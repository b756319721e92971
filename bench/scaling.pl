# What is better seen than read: redirects and latency against connections, resolve against the number of links.
use strict;
use warnings;

use Bench;
use Servers;

my $seconds = $ENV{BENCH_SECONDS} // 5;
my $largest = $ENV{BENCH_LARGE} // $ENV{BENCH_LINKS} // 1_000_000;

heading('scaling');
fill();
my %servers = (shortenerd => shortenerd('frontend/shortenerd', @on_first, 'env', 'SHORTENERD_THREADS=1', 'SHORTENERD_CLICKS=off'), nginx => nginx());
my (%rates, %latencies);
check($_, 1 .. $links) for values %servers;
for my $count (1, 4, 16, 64, 256, 1024)
{
	local $Servers::connections = $count;
	my %runs;
	compare("cached redirects / nginx with a map, $count connections", unit => '/s', rounds => 3,
		ours => sub { push @{ $runs{shortenerd} }, wrk($servers{shortenerd}, @on_others); $runs{shortenerd}[-1]{rate} },
		reference => sub { push @{ $runs{nginx} }, wrk($servers{nginx}, @on_others); $runs{nginx}[-1]{rate} });
	for my $name (keys %runs)
	{
		push @{ $rates{$name} }, [ $count, median(map { $_->{rate} } @{ $runs{$name} }) ];
		push @{ $latencies{$name} }, [ $count, median(map { $_->{p99} } @{ $runs{$name} }) ];
	}
}
stop($_->{pid}) for values %servers;
my @names = qw(shortenerd nginx);
plot('redirects', title => 'Cached redirects a second, one thread', x => 'connections', y => 'redirects a second', series => [ map { [ $_, @{ $rates{$_} } ] } @names ]);
plot('latency', title => '99th percentile of the time to answer', x => 'connections', y => 'ms', series => [ map { [ $_, @{ $latencies{$_} } ] } @names ]);

# Each measurement looks up random ones of all links.
sql('TRUNCATE shortener.link');
my (@ours, @reference);
my $made = 0;
for (my $size = 1000; $size <= $largest; $size *= 10)
{
	sql("INSERT INTO shortener.link (workspace_id, short_code, original_url, redirect_status) SELECT 1, 1000000 + n,"
		  . " rpad('https://example.com/' || 1000000 + n || '/', 100, 'x'), 302 FROM generate_series($made + 1, $size) n");
	sql('VACUUM ANALYZE shortener.link');
	$made = $size;
	my $look_up = sub {
		my ($statement, $values) = @_;
		return sub {
			push @$values, 1000 * pgbench('\set n random(' . code(1) . ', ' . code($size) . ")\n$statement;", protocol => 'prepared', seconds => $seconds)->{ms};
			return $values->[-1];
		};
	};
	my (@resolves, @selects);
	compare("resolve / prepared SELECT on the unique index, $size links", unit => 'us', rounds => 3,
		ours => $look_up->('SELECT * FROM shortener.resolve((:n)::text)', \@resolves),
		reference => $look_up->('SELECT redirect_status, original_url, id, expires_at FROM shortener.link WHERE workspace_id = 1 AND short_code = (:n)::text', \@selects));
	push @ours, [ $size, median(@resolves) ];
	push @reference, [ $size, median(@selects) ];
}
plot('resolve', title => 'Time of one resolve', x => 'links in the table', y => 'microseconds', series => [ [ 'resolve', @ours ], [ 'plain SELECT', @reference ] ]);
