# What a backend remembers of workspaces, domains and blocked hosts is never older than its statement: changes are seen
# by other sessions in their next statement, on a standby once they are replayed there, and after a rollback not at all.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('primary');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', "fsync = off\nmax_connections = 30");
$node->start;
$node->safe_psql('postgres', q{
	CREATE EXTENSION shortener CASCADE;
	CALL shortener.install();
	SELECT shortener.create_workspace('a'), shortener.create_workspace('b');
	SELECT shortener.add_domain('a.example', 'a')});
$node->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->start;

# Three sessions that last, so that they remember.
my $writer = $node->background_psql('postgres');
my $reader = $node->background_psql('postgres');
my $replica = $standby->background_psql('postgres');

sub served { return "SELECT coalesce((SELECT slug FROM shortener.workspace WHERE id = r.workspace_id), 'none') FROM shortener.resolve('x', '$_[0]') r"; }

# Runs a change and looks at its effect in each session.
sub seen_after
{
	my ($change, $question, $expected, $name) = @_;
	$writer->query_safe($change);
	is($writer->query_safe($question), $expected, "$name: in the same session");
	is($reader->query_safe($question), $expected, "$name: in another");
	$node->wait_for_catchup($standby);
	is($replica->query_safe($question), $expected, "$name: on a standby");
	return;
}

seen_after('SELECT 1', served('a.example'), 'a', 'a domain');
seen_after('SELECT 1', served('new.example'), 'default', 'an unknown host');
seen_after(q{DO $$ BEGIN PERFORM shortener.add_domain('new.example', 'a'); END $$}, served('new.example'), 'a', 'a host becomes a domain');
seen_after(q{UPDATE shortener.domain SET workspace_id = (SELECT id FROM shortener.workspace WHERE slug = 'b') WHERE host = 'new.example'},
	served('new.example'), 'b', 'a domain moves');
seen_after(q{UPDATE shortener.workspace SET slug = 'old' WHERE slug = 'default'}, served('none.example'), 'none', 'the default workspace is renamed');
seen_after(q{UPDATE shortener.workspace SET slug = 'default' WHERE slug = 'old'}, served('none.example'), 'default', 'and back');
seen_after(q{DELETE FROM shortener.domain WHERE host = 'new.example'}, served('new.example'), 'default', 'a domain is removed');
seen_after(q{SET session_replication_role = replica; INSERT INTO shortener.domain SELECT 'new.example', id FROM shortener.workspace WHERE slug = 'b';
	RESET session_replication_role}, served('new.example'), 'b', 'a row comes by logical replication');
seen_after('TRUNCATE shortener.domain', served('a.example'), 'default', 'all domains are removed');

# Within transactions
my $add = q{INSERT INTO shortener.domain SELECT 't.example', id FROM shortener.workspace WHERE slug = 'a'};
$writer->query_safe("BEGIN; $add");
is($writer->query_safe(served('t.example')), 'a', 'before the commit, the transaction sees its change');
is($reader->query_safe(served('t.example')), 'default', '... and nobody else does');
$writer->query_safe('ROLLBACK');
is($writer->query_safe(served('t.example')), 'default', 'after a rollback nobody does');
is($reader->query_safe(served('t.example')), 'default', '... in any session');
$writer->query_safe("BEGIN; SAVEPOINT s; $add");
is($writer->query_safe(served('t.example')), 'a', 'within a subtransaction');
$writer->query_safe('ROLLBACK TO s');
is($writer->query_safe(served('t.example')), 'default', '... and after its rollback');
$writer->query_safe($add);
$writer->query_safe('COMMIT');
is($reader->query_safe(served('t.example')), 'a', 'the commit of the rest counts');

for my $level ('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE')
{
	my $change = sub { $writer->query_safe("UPDATE shortener.domain SET workspace_id = (SELECT id FROM shortener.workspace WHERE slug = '$_[0]')") };
	my $question = "SELECT w.slug FROM shortener.resolve('x', 't.example') r JOIN shortener.workspace w ON w.id = r.workspace_id";
	$change->('a');
	$reader->query_safe("BEGIN ISOLATION LEVEL $level");
	is($reader->query_safe($question), 'a', "$level: before a change");
	$change->('b');
	is($reader->query_safe($question), 'b', "$level: after it, as foreign keys are checked");
	$reader->query_safe('COMMIT');
	is($reader->query_safe($question), 'b', "$level: no old row is remembered");
}

# Links are made by what holds now.
my $code = q{SELECT length(shortener.shorten('https://style.example/%d', 'a'))};
is($reader->query_safe(sprintf $code, 1), 7, 'a scrambled code');
$writer->query_safe(q{UPDATE shortener.workspace SET code_style = 'sequential' WHERE slug = 'a'});
cmp_ok($reader->query_safe(sprintf $code, 2), '<', 4, 'a sequential one after the style has changed');
$reader->query_safe(q{CREATE FUNCTION pg_temp.refusal(url text) RETURNS text LANGUAGE plpgsql AS
	$$ BEGIN PERFORM shortener.shorten(url); RETURN 'none'; EXCEPTION WHEN OTHERS THEN RETURN SQLERRM; END $$});
my $refusal = q{SELECT pg_temp.refusal('https://www.bad.example/')};
is($reader->query_safe($refusal), 'none', 'a host that is not blocked');
$writer->query_safe(q{INSERT INTO shortener.blocked_host VALUES ('*.bad.example')});
like($reader->query_safe($refusal), qr/leads to a blocked host/, 'is refused as soon as it is');
$writer->query_safe('DELETE FROM shortener.blocked_host');
is($reader->query_safe($refusal), 'none', 'and not longer');
like($reader->query_safe(q{SELECT pg_temp.refusal('https://t.example/')}), qr/leads to a domain of this shortener/, 'a domain');

# Many hosts and many blocked ones take bounded memory.
$node->safe_psql('postgres', q{INSERT INTO shortener.blocked_host SELECT 'h' || i || '.feed.example' FROM generate_series(1, 20000) i});
is($reader->query_safe(q{SELECT count(error) FROM shortener.shorten_many((SELECT array_agg('https://h' || i || '.feed.example/') FROM generate_series(1, 20000) i))}),
	20000, 'twenty thousand blocked hosts');
is($reader->query_safe(q{SELECT count(DISTINCT workspace_id) FROM shortener.resolve_many((SELECT array_agg('x'::text) FROM generate_series(1, 20000)),
	(SELECT array_agg(repeat('h', 200) || i || '.example') FROM generate_series(1, 20000) i))}), 1, 'twenty thousand unknown hosts');
cmp_ok($reader->query_safe(q{SELECT sum(total_bytes) FROM pg_backend_memory_contexts WHERE name LIKE 'shortener%'}), '<', 3_000_000, 'are not all remembered');

# Ten sessions move domains at random, each its own, and see each change at once; so do those who only look.
$node->safe_psql('postgres', q{
	INSERT INTO shortener.domain SELECT 'load' || i || '.example', w.id FROM generate_series(0, 9) i, shortener.workspace w WHERE w.slug = 'a';
	CREATE FUNCTION require(holds boolean) RETURNS void LANGUAGE plpgsql AS $$ BEGIN ASSERT holds; END $$});
my $script = PostgreSQL::Test::Utils::tempdir() . '/move.sql';
append_to_file($script, <<'SQL');
\set style random(0, 1)
BEGIN;
UPDATE shortener.domain SET workspace_id = (SELECT id FROM shortener.workspace WHERE slug IN ('a', 'b') ORDER BY random() LIMIT 1) WHERE host = 'load' || :client_id || '.example';
UPDATE shortener.workspace SET redirect_status = 301 + :style WHERE slug = 'default' AND :client_id = 0;
SELECT require(d.workspace_id = r.workspace_id) FROM shortener.domain d, shortener.resolve('x', 'load' || :client_id || '.example') r WHERE d.host = 'load' || :client_id || '.example';
COMMIT;
SELECT require(d.workspace_id = r.workspace_id) FROM shortener.domain d, shortener.resolve('x', 'load' || :client_id || '.example') r WHERE d.host = 'load' || :client_id || '.example';
BEGIN;
DELETE FROM shortener.domain WHERE host = 'load' || :client_id || '.example';
SELECT require(r.workspace_id = 1) FROM shortener.resolve('x', 'load' || :client_id || '.example') r;
ROLLBACK;
SELECT require(d.workspace_id = r.workspace_id) FROM shortener.domain d, shortener.resolve('x', 'load' || :client_id || '.example') r WHERE d.host = 'load' || :client_id || '.example';
SQL
command_ok([ 'pgbench', '-n', '-c', '10', '-j', '2', '-t', '200', '-M', 'prepared', '-f', $script, $node->connstr('postgres') ], 'ten sessions, two thousand changes');
my $wrong = q{SELECT count(*) FROM shortener.domain d, shortener.resolve('x', d.host) r WHERE d.workspace_id <> r.workspace_id};
is($reader->query_safe($wrong), 0, 'a session that only looked sees them all');
$node->wait_for_catchup($standby);
is($replica->query_safe($wrong), 0, '... on a standby, too');

$_->quit for $writer, $reader, $replica;
$standby->stop;
$node->stop;
done_testing();
