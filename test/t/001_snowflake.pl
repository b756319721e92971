# Snowflake ids stay unique and increasing over sessions, preloading, restarts and a clock that steps back.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $sessions = 16;
my $each = 62_500;    # a million ids in all

# Draws ids in many sessions that begin together; checks each session's order, gives back all ids sorted. What is to
# happen in between does when each session has half of its ids.
sub draw
{
	my ($node, $between) = @_;
	my $gate = $node->background_psql('postgres');
	$gate->query_safe('SELECT pg_advisory_lock(1), pg_advisory_lock(2)');
	my $half = $each / 2;
	my $draw = "SELECT shortener.snowflake_id() FROM generate_series(1, $half)";
	my @running;
	for my $session (1 .. $sessions)
	{
		# Into files: psql would wait for a reader of its pipe.
		my $ids = PostgreSQL::Test::Utils::tempdir() . "/ids.$session";
		push @running,
		  {
			ids => $ids,
			handle => IPC::Run::start(
				[ 'psql', '-XAtq', '-d', $node->connstr('postgres'), map { ('-c', "DO 'BEGIN PERFORM pg_advisory_lock_shared($_); END'", '-c', $draw) } 1, 2 ],
				'>', $ids)
		  };
	}
	for my $lock (1, 2)
	{
		$node->poll_query_until('postgres', "SELECT count(*) = $sessions FROM pg_locks WHERE locktype = 'advisory' AND objid = $lock AND NOT granted")
		  or die 'the sessions do not wait';
		$between->() if $between && $lock == 2;
		$gate->query_safe("SELECT pg_advisory_unlock($lock)");
	}
	$gate->quit;
	my (@all, $disordered);
	for my $run (@running)
	{
		$run->{handle}->finish or die 'psql failed';
		my @ids = split /\n/, slurp_file($run->{ids});
		$disordered += grep { $ids[$_] <= $ids[ $_ - 1 ] } 1 .. $#ids;
		push @all, @ids;
	}
	is($disordered, 0, "each session's ids increase");
	return sort { $a <=> $b } @all;
}

sub check_unique
{
	my ($name, @ids) = @_;
	is(scalar(grep { $ids[$_] == $ids[ $_ - 1 ] } 1 .. $#ids), 0, "$name: no duplicate");
	return;
}

# The library of faketime, whose clock follows a file.
my ($faketime) = glob('/usr/lib/*/faketime/libfaketimeMT.so.1') or die 'faketime is not installed';
my $clock = PostgreSQL::Test::Utils::tempdir() . '/clock';

sub set_clock
{
	my ($offset) = @_;
	append_to_file("$clock.new", "$offset\n");
	rename "$clock.new", $clock or die "rename: $!";
	return;
}

set_clock('+0s');
my $node = PostgreSQL::Test::Cluster->new('snowflake');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', 'max_connections = ' . ($sessions + 10));
{
	local $ENV{LD_PRELOAD} = $faketime;
	local $ENV{FAKETIME_TIMESTAMP_FILE} = $clock;
	local $ENV{FAKETIME_NO_CACHE} = 1;
	local $ENV{FAKETIME_DONT_FAKE_MONOTONIC} = 1;
	$node->start;
}
$node->safe_psql('postgres', 'CREATE EXTENSION shortener CASCADE');

my @plain = draw($node);
is(scalar @plain, $sessions * $each, 'a million ids');
check_unique('not preloaded', @plain);

my @stepped = draw($node, sub { set_clock('-2s') });
my $there = $node->safe_psql('postgres', 'SELECT extract(epoch FROM clock_timestamp())');
cmp_ok(time() - $there, '>=', 1.9, 'the clock of the server did step back');
check_unique('clock stepped back two seconds', @stepped);
cmp_ok($stepped[0], '>', $plain[-1], 'nothing goes back with the clock');

$node->stop;
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'shortener'\nshortener.node_id = 1023");
$node->start;
my @preloaded = draw($node);
check_unique('preloaded', @preloaded);
cmp_ok($preloaded[0], '>', $stepped[-1], 'nothing goes back over a restart');
is($node->safe_psql('postgres', 'SELECT shortener.snowflake_node(shortener.snowflake_id())'), 1023, 'node 1023');

my ($status, undef, $error) = $node->psql('postgres', 'SET shortener.node_id = 1024');
isnt($status, 0, 'a bad node is refused at SET');
like($error, qr/1024 is outside the valid range.*0 \.\. 1023/, 'with its range');

# A standby has its primary's node number but not its clock.
$node->backup('copy');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'copy', has_streaming => 1);
$standby->start;
(undef, undef, $error) = $standby->psql('postgres', 'SELECT shortener.snowflake_id()');
like($error, qr/cannot make snowflake ids during recovery/, 'a standby makes none');
is($standby->safe_psql('postgres', 'SELECT shortener.base62_encode(62)'), '10', 'but encodes');
$standby->stop;

$node->stop;
done_testing();
