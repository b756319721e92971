# With a million links, and after plans have turned generic, every look-up goes through its index.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('plans');
$node->init;
$node->append_conf('postgresql.conf', "fsync = off\nautovacuum = off\nshared_buffers = 256MB\nmax_wal_size = 4GB\n"
	  . "session_preload_libraries = 'auto_explain'\nauto_explain.log_min_duration = 0\nauto_explain.log_nested_statements = on\nauto_explain.log_analyze = on");
$node->start;
# Hand-made rows, because they are faster; a thousand real ones among them.
$node->safe_psql('postgres', q{
	SET auto_explain.log_min_duration = -1;
	CREATE EXTENSION shortener CASCADE;
	CALL shortener.install();
	ALTER TABLE shortener.link DISABLE TRIGGER after_link_insert; -- which refuses made-up digests
	INSERT INTO shortener.link (workspace_id, short_code, original_url, url_digest, redirect_status)
		SELECT 1, 'c' || i, 'https://example.com/' || i, substr(sha256(i::text::bytea), 1, 11), 302 FROM generate_series(1, 1000000) i;
	ALTER TABLE shortener.link ENABLE TRIGGER after_link_insert;
	UPDATE shortener.link SET title = 'title ' || id WHERE id % 100 = 0;
	UPDATE shortener.link SET description = 'a needle' WHERE id = 777;
	INSERT INTO shortener.retired_code SELECT 1, 'r' || i FROM generate_series(1, 10000) i;
	SELECT count(*) FROM shortener.shorten_many((SELECT array_agg('https://known.example/' || i) FROM generate_series(1, 1000) i));
	VACUUM ANALYZE shortener.link;
	ANALYZE shortener.retired_code});

# Runs statements in one session and gives the plans of everything that ran inside them.
sub plans
{
	my ($sql) = @_;
	my $offset = -s $node->logfile;
	$node->safe_psql('postgres', $sql);
	return substr(slurp_file($node->logfile), $offset);
}

my $resolve = 'PREPARE r(text) AS SELECT * FROM shortener.resolve($1);' . join '', map { "EXECUTE r('c$_');" } 1 .. 8;
my %path = (
	'resolve' => [ $resolve, qr/Index Scan using link_short_code/ ],
	'resolve_many' => [ 'PREPARE m(text[]) AS SELECT * FROM shortener.resolve_many($1);' . "EXECUTE m('{c1,c2,r1,x}');" x 8, qr/Index Scan using link_short_code/ ],
	'shorten, known' => [ "SELECT shortener.shorten('https://known.example/1');" x 8, qr/Index Scan using link_url_digest/ ],
	'shorten, new' => [ join('', map { "SELECT shortener.shorten('https://new.example/$_');" } 1 .. 8), qr/Index Scan using link_url_digest/ ],
	'shorten_many, known' => [ "SELECT shortener.shorten_many('{https://known.example/1,https://known.example/2}');" x 8, qr/Index Scan using link_url_digest/ ],
	'shorten_many, thousand new' => [
		join('', map { "SELECT count(*) FROM shortener.shorten_many((SELECT array_agg('https://more.example/$_/' || i) FROM generate_series(1, 1000) i));" } 1 .. 8),
		qr/Index Scan using link_url_digest/ ],
	'list_links' => [ 'SELECT count(*) FROM shortener.list_links(before_id => 500000);' x 8, qr/Index Scan Backward using link_pkey/ ],
	'search_links' => [ "SELECT count(*) FROM shortener.search_links('needle');" x 8, qr/Bitmap Index Scan on link_search/ ],
	'get_link' => [ join('', map { "SELECT count(*) FROM shortener.get_link('c$_');" } 1 .. 8), qr/Index Scan using link_short_code/ ],
	'delete_link' => [ join('', map { "SELECT shortener.delete_link('c$_');" } 1 .. 8), qr/Index Scan using link_short_code/ ],
	'removal' => [ join('', map { "DELETE FROM shortener.link WHERE workspace_id = 1 AND short_code = 'c2$_';" } 1 .. 8), qr/Index Scan using link_short_code/ ]);
for my $name (sort keys %path)
{
	my ($sql, $expected) = @{ $path{$name} };
	my $plans = plans($sql);
	like($plans, $expected, "$name uses its index");
	# A thousand codes against ten thousand retired ones may well be a hash join.
	my $whole = $name =~ /thousand/ ? qr/Seq Scan on link\b/ : qr/Seq Scan on (link|retired_code)\b/;
	unlike($plans, $whole, "$name never reads a whole table");
}

# What no index can spare, such as a look at a table of one row, is not worth compiling: jit is on, as Debian has it.
is($node->safe_psql('postgres', 'SHOW jit'), 'on', 'jit is on');
$node->safe_psql('postgres', "SELECT shortener.create_workspace('short', default_ttl => '1 hour')");
my %call = (
	'create_link' => "SELECT shortener.create_link('https://jit.example/', alias => 'jit');",
	'create_link again' => "SELECT shortener.create_link('https://jit.example/');" x 2,
	'shorten with a default life' => "SELECT shortener.shorten('https://jit.example/', 'short');" x 3,
	'shorten_many with a default life' => "SELECT shortener.shorten_many('{https://jit.example/1}', 'short');" x 3,
	'update_link' => "SELECT shortener.update_link('jit', url => 'https://jit.example/2', title => 'new');",
	'disable_link' => "SELECT shortener.disable_link('jit');",
	'resolve' => "SELECT * FROM shortener.resolve('jit');",
	'resolve_many' => "SELECT * FROM shortener.resolve_many('{jit,nothing}');",
	'delete_link' => "SELECT shortener.delete_link('jit');",
	'removal' => "DELETE FROM shortener.link WHERE short_code = 'jit' AND workspace_id = 1;");
for my $name (sort keys %call)
{
	my $plans = plans($call{$name});
	like($plans, qr/actual time/, "$name is seen");
	unlike($plans, qr/JIT:/, "$name compiles nothing");
}

# Plans that were made when there was next to nothing serve as well when much has come in the same session, and in the
# same transaction, where no vacuum can make new ones. A loop over the squares would take an hour.
$node->safe_psql('postgres', 'CREATE DATABASE fresh');
my $fresh = q{
	SET auto_explain.log_min_duration = -1;
	SET statement_timeout = '3min';
	CREATE EXTENSION shortener CASCADE;
	CALL shortener.install();
	%s
	BEGIN;
	UPDATE shortener.link SET title = 'one' WHERE id = (SELECT min(id) FROM shortener.link);
	DO $$ BEGIN FOR i IN 1 .. 20 LOOP
		PERFORM shortener.shorten_many((SELECT array_agg('https://example.com/' || j) FROM generate_series(10000 * i, 10000 * i + 9999) j));
	END LOOP; END $$;
	UPDATE shortener.link SET title = 'many';
	DELETE FROM shortener.link WHERE id %% 2 = 0;
	DO $$ BEGIN FOR i IN 1 .. 10 LOOP
		PERFORM shortener.shorten_many((SELECT array_agg('https://example.com/new/' || j) FROM generate_series(10000 * i, 10000 * i + 9999) j));
	END LOOP; END $$;
	COMMIT;
	SELECT count(*) FROM shortener.link};
is($node->safe_psql('fresh', sprintf $fresh, "DO \$\$ BEGIN PERFORM shortener.shorten('https://first.example/'); END \$\$;"), 200001, 'two hundred thousand links in the first transaction');
is($node->safe_psql('fresh', 'DROP EXTENSION shortener CASCADE; DROP SCHEMA shortener CASCADE;' . sprintf $fresh, 'VACUUM ANALYZE;'), 200000,
	'and when the tables were vacuumed while empty');

# Of the indexes that begin with the workspace, statements that were planned for empty tables use the one with the key.
$node->safe_psql('postgres', 'CREATE DATABASE empty');
my $offset = -s $node->logfile;
$node->safe_psql('empty', q{
	SET auto_explain.log_min_duration = -1;
	CREATE EXTENSION shortener CASCADE;
	CALL shortener.install();
	SELECT shortener.shorten('https://a.example/'), shortener.disable_link('x'), shortener.shorten_many('{https://b.example/}'),
		shortener.record_clicks(gen_random_uuid(), '{1}', ARRAY[now()], NULL, '{agent}', '{https://from.example/}'),
		shortener.record_clicks(gen_random_uuid(), '{1}', ARRAY[now()], workspace_ids => '{1}');
	SELECT count(*) FROM shortener.shorten_many((SELECT array_agg('https://example.com/' || i) FROM generate_series(1, 1000) i));
	SET search_path = pg_catalog; -- has them planned anew
	SET auto_explain.log_min_duration = 0;
	SELECT shortener.shorten('https://c.example/'), shortener.disable_link('x'), shortener.shorten_many('{https://d.example/}'),
		shortener.record_clicks(gen_random_uuid(), '{2}', ARRAY[now()], NULL, '{other}', '{https://elsewhere.example/}'),
		shortener.record_clicks(gen_random_uuid(), '{3}', ARRAY[now()], workspace_ids => '{1}')});
my $plans = substr(slurp_file($node->logfile), $offset);
like($plans, qr/using $_\b/, "$_ is used") for qw(link_pkey link_short_code link_url_digest user_agent_workspace_id_user_agent_key referrer_workspace_id_host_key);
unlike($plans, qr/Filter: .*\b(id|short_code|url_digest|user_agent|host) = /, 'and rows are found by their key, not filtered by it');

$node->stop;
done_testing();
