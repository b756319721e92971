# Many clients shorten the same URLs at once, at every isolation level: one code per URL, and no number burnt.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my ($clients, $urls, $calls) = (32, 1000, 100_000);

my $node = PostgreSQL::Test::Cluster->new('race');
$node->init;
$node->append_conf('postgresql.conf', "fsync = off\nmax_connections = 100");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION shortener CASCADE; CALL shortener.install(); CREATE TABLE answer (url int, code text)');

sub value { return $node->safe_psql('postgres', $_[0]); }

for my $level ('read committed', 'repeatable read', 'serializable')
{
	(my $name = $level) =~ s/ /-/;
	value("SELECT shortener.create_workspace('$name'); TRUNCATE answer");
	my $drawn = value('SELECT last_value FROM shortener.link_id_seq');
	my $script = PostgreSQL::Test::Utils::tempdir() . "/race.sql";
	append_to_file($script, "\\set url random(1, $urls)\nBEGIN ISOLATION LEVEL $level;\n"
		  . "INSERT INTO answer SELECT :url, shortener.shorten('https://example.com/' || :url, '$name');\nCOMMIT;\n");
	# pgbench tries again after 40001 and 40P01 and stops at any other error.
	my ($output, $errors);
	my $done = IPC::Run::run(
		[ 'pgbench', '-n', '-c', $clients, '-j', 2, '-t', $calls / $clients, '--max-tries=100000', '-M', 'prepared', '-f', $script,
			$node->connstr('postgres') ], '>', \$output, '2>', \$errors);
	ok($done, "$level: $calls calls, only retryable errors") or diag($errors);
	like($output, qr/number of failed transactions: 0 /, "$level: none given up");
	is(value('SELECT count(*) FROM answer'), $calls, "$level: every call answered");
	is(value('SELECT count(*) FROM answer WHERE code IS NULL'), 0, "$level: never NULL");
	is(value('SELECT count(DISTINCT url) || $$ $$ || count(DISTINCT (url, code)) || $$ $$ || count(DISTINCT code) FROM answer'),
		"$urls $urls $urls", "$level: one code per URL");
	my $links = value("SELECT count(*) FROM shortener.link WHERE workspace_id = shortener.workspace_id('$name')");
	is($links, $urls, "$level: one link per URL");
	my $burnt = value('SELECT last_value FROM shortener.link_id_seq') - $drawn - $links;
	my ($retried) = $output =~ /number of transactions retried: (\d+)/;
	note("$level: $burnt numbers burnt, " . ($retried // 0) . ' transactions retried');
	cmp_ok($burnt, '<=', 0.01 * $links, "$level: at most one number in a hundred burnt");
	unlink $script;
}

# Two bulk calls with the same URLs in opposite order wait for each other and do not deadlock.
my $bulk = q{SELECT count(DISTINCT short_code) FROM shortener.shorten_many(
	(SELECT array_agg('https://bulk.example/' || i ORDER BY i %s) FROM generate_series(1, 20000) i))};
my @running = map {
	my $out = '';
	{ out => \$out, handle => IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', sprintf($bulk, $_) ], '>', \$out, '2>&1') }
} ('ASC', 'DESC') x 4;
is(join(',', map { $_->{handle}->finish; ${ $_->{out} } } @running), join(',', ("20000\n") x 8), 'bulk calls in opposite order');
is(value(q{SELECT count(*) FROM shortener.link WHERE original_url LIKE 'https://bulk.example/%'}), 20000, 'one link per URL');

# A cleanup removes a link while another session waits to take its code as an alias.
for my $level ('read committed', 'repeatable read', 'serializable')
{
	(my $code = "old-$level") =~ s/ /-/g;
	value("SELECT shortener.create_link('https://old.example/', alias => '$code')");
	my ($in, $out) = ('', '');
	my $timer = IPC::Run::timer(60);
	my $remover = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres') ], '<', \$in, '>', \$out, '2>&1', $timer);
	$in .= "BEGIN;\nDELETE FROM shortener.link WHERE short_code = '$code';\n\\echo deleted\n";
	pump $remover until $out =~ /deleted/;
	my $taken = '';
	my $taker = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', "BEGIN ISOLATION LEVEL $level", '-c', 'SELECT 1',
			'-c', "SELECT shortener.create_link('https://new.example/', alias => '$code')", '-c', 'COMMIT' ], '>', \$taken, '2>&1');
	$node->poll_query_until('postgres', "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%create_link%'")
	  or die 'nobody waits';
	$in .= "COMMIT;\n\\q\n";
	$remover->finish;
	$taker->finish;
	like($taken, qr/short code "$code" was used before|could not serialize/, "$level: a code retired meanwhile is refused");
	is(value("SELECT count(*) FROM shortener.link WHERE short_code = '$code'"), 0, "$level: and not taken");
	is(value("SELECT http_status FROM shortener.resolve('$code')"), 410, "$level: it stays gone");
}

# Removals of one workspace wait for each other at no isolation level, and no two of them lose a code.
for my $level ('read committed', 'repeatable read', 'serializable')
{
	my @codes = map { value("SELECT shortener.shorten('https://removed.example/$level/$_')") } 1 .. 6;
	my ($one, $other) = map { $node->background_psql('postgres') } 1 .. 2;
	$_->query_safe("SET lock_timeout = '5s'; BEGIN ISOLATION LEVEL $level") for $one, $other;
	for my $i (0 .. 1)
	{
		$one->query_safe("DELETE FROM shortener.link WHERE short_code = '$codes[2 * $i]'");
		$other->query_safe("DELETE FROM shortener.link WHERE short_code = '$codes[2 * $i + 1]'");
	}
	$other->query_safe('COMMIT');
	$one->query_safe('ROLLBACK');
	$_->quit for $one, $other;
	is(value("SELECT string_agg(http_status::text, ' ' ORDER BY ordinality) FROM shortener.resolve_many('{" . join(',', @codes) . "}')"
			  . ' WITH ORDINALITY r (http_status, a, b, c, d, e, ordinality)'),
		'302 410 302 410 302 302', "$level: what was committed is gone, and nothing else");
	value("DELETE FROM shortener.link WHERE short_code = '$codes[4]'");
	is(value('SELECT count(*) FROM shortener.retired_number'), 1, "$level: the next removal takes all rows into one");
}

$node->stop;
done_testing();
