# The links are the user's: they survive pg_dump and restore, DROP EXTENSION … CASCADE and updates of the extension.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('dump');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', 'fsync = off');
$node->start;

my $dir = PostgreSQL::Test::Utils::tempdir();
my @tables = qw(installation workspace workspace_key domain blocked_host reserved_code retired_code retired_number link);

sub value { my ($sql, $database) = @_; return $node->safe_psql($database // 'postgres', $sql); }

sub contents
{
	my ($database) = @_;
	return join "\n", map { "$_: " . value("SELECT md5(string_agg(t::text, '|' ORDER BY t::text)) FROM shortener.$_ t", $database) } @tables;
}

value(q{
	CREATE EXTENSION shortener CASCADE;
	CALL shortener.install();
	SELECT shortener.add_domain('go.example'), shortener.block_host('evil.example'), shortener.create_workspace('other', code_style => 'snowflake');
	SELECT shortener.shorten_many((SELECT array_agg('https://example.com/' || i) FROM generate_series(1, 1000) i));
	SELECT shortener.create_link('https://example.com/', 'mine', now() + '1 day', 307, 'Title', 'Words', '{"a": 1}', '192.0.2.1');
	SELECT shortener.shorten('https://example.com/1', 'other'), shortener.create_link('https://example.com/', 'removed');
	DELETE FROM shortener.link WHERE short_code = 'removed';
});
my $known = value(q{SELECT shortener.shorten('https://example.com/7')});

# What must work in any database that has the links.
sub works
{
	my ($database, $name) = @_;
	is(value(q{SELECT shortener.shorten('https://example.com/7')}, $database), $known, "$name: a known URL has its code");
	is(value(qq{SELECT http_status || ' ' || location FROM shortener.resolve('$known')}, $database), '302 https://example.com/7', "$name: which redirects");
	is(value(q{SELECT http_status FROM shortener.resolve('removed')}, $database), 410, "$name: a retired code is gone");
	is(value(q{SELECT created FROM shortener.create_link('https://new.example/')}, $database), 't', "$name: a new URL has a new code");
	is(value(q{SELECT count(*) - count(DISTINCT short_code) FROM shortener.link WHERE workspace_id = 1}, $database), 0, "$name: no code twice");
	my (undef, undef, $error) = $node->psql($database, q{SELECT shortener.create_link('https://new.example/', alias => 'removed')});
	like($error, qr/was used before/, "$name: the triggers are there");
	my ($count) = value(q{SELECT count(*) FROM pg_trigger WHERE tgrelid = 'shortener.link'::regclass AND NOT tgisinternal}, $database);
	is($count, 5, "$name: all of them");
	value(q{DELETE FROM shortener.link WHERE original_url = 'https://new.example/'; DELETE FROM shortener.retired_code WHERE short_code <> 'removed'}, $database);
}

my $before = contents('postgres');
for my $format ('plain', 'custom')
{
	$node->command_ok([ 'pg_dump', '-F', $format, '-f', "$dir/$format", '-d', $node->connstr('postgres') ], "pg_dump, $format");
	$node->safe_psql('postgres', "CREATE DATABASE $format TEMPLATE template0");
	$node->command_ok(
		$format eq 'plain'
		? [ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr($format), '-f', "$dir/$format" ]
		: [ 'pg_restore', '-e', '-d', $node->connstr($format), "$dir/$format" ], 'restore');
	is(contents($format), $before, "$format: equal contents");
	works($format, $format);
}

value('DROP EXTENSION shortener CASCADE');
is(contents('postgres'), $before, 'DROP EXTENSION … CASCADE: every row is still there');
value('CREATE EXTENSION shortener CASCADE');
is(contents('postgres'), $before, 'and after CREATE EXTENSION');
works('postgres', 'extension made again');

# A next version, as a later release would bring it; test/run has put its script beside ours.
value(q{ALTER EXTENSION shortener UPDATE TO 'next'});
is(value('SELECT shortener.next_version()'), 'next', 'ALTER EXTENSION UPDATE');
value('CALL shortener.install()');
works('postgres', 'updated');

# A standby and a read-only transaction resolve; only the primary shortens.
$node->backup('copy');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'copy', has_streaming => 1);
$standby->start;
$node->wait_for_catchup($standby);
is($standby->safe_psql('postgres', "SELECT http_status FROM shortener.resolve('$known')"), 302, 'a standby resolves');
is($standby->safe_psql('postgres', "SELECT count(*) FROM shortener.resolve_many(ARRAY['$known', 'nothing'])"), 2, 'many, too');
my (undef, undef, $error) = $standby->psql('postgres', q{SELECT shortener.shorten('https://standby.example/')});
like($error, qr/recovery|read-only/, 'but makes no link');
$standby->stop;

$node->stop;
done_testing();
