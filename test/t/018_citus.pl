# On tables that Citus has distributed the functions raise an error, instead of finding no link. Entries in the
# catalogs play its part, because no Debian package has Citus.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('citus');
$node->init;
$node->append_conf('postgresql.conf', 'fsync = off');
$node->start;
sub value { return $node->safe_psql('postgres', $_[0]); }
sub error { my ($status, $out, $error) = $node->psql('postgres', $_[0]); return $error; }

value(q{CREATE EXTENSION shortener CASCADE; CALL shortener.install()});
my $code = value(q{SELECT shortener.shorten('https://a.example/')});

# A table of that name alone is not Citus.
value(q{CREATE TABLE public.pg_dist_partition (logicalrelid regclass PRIMARY KEY); INSERT INTO public.pg_dist_partition VALUES ('shortener.link')});
is(value("SELECT http_status FROM shortener.resolve('$code')"), 302, 'a table of the same name in another schema is not asked');
value(q{DROP TABLE public.pg_dist_partition});

my $session = $node->background_psql('postgres', on_error_stop => 0);
my $prepared = "PREPARE r AS SELECT http_status FROM shortener.resolve('$code');";
is($session->query("$prepared EXECUTE r"), 302, 'a session that has asked before');
value(q{
	SET allow_system_table_mods = on;
	CREATE TABLE pg_catalog.pg_dist_partition (logicalrelid regclass PRIMARY KEY, partmethod "char");
	INSERT INTO pg_extension (oid, extname, extowner, extnamespace, extrelocatable, extversion) VALUES (99999, 'citus', 10, 'pg_catalog'::regnamespace, false, '1');
	INSERT INTO pg_depend VALUES ('pg_class'::regclass, 'pg_dist_partition'::regclass, 0, 'pg_extension'::regclass, 99999, 0, 'e')});
is(value("SELECT http_status FROM shortener.resolve('$code')"), 302, 'Citus with tables of others is no reason');
# Citus invalidates what is known of a table that it distributes.
value(q{INSERT INTO pg_dist_partition VALUES ('shortener.link', 'h'); ALTER TABLE shortener.link SET (fillfactor = 99)});
like(error($_), qr/does not support tables distributed by Citus.*undistribute_table/s, "distributed: $_")
  for "SELECT * FROM shortener.resolve('$code')", "SELECT * FROM shortener.resolve_many('{$code}')", q{SELECT shortener.shorten('https://a.example/')},
  q{SELECT * FROM shortener.list_links()};
$session->{stderr} = '';
$session->query('EXECUTE r');
like($session->{stderr}, qr/distributed by Citus/, 'also in a prepared statement of the session that had asked before');
value(q{DELETE FROM pg_dist_partition; ALTER TABLE shortener.link SET (fillfactor = 100)});
is(value("SELECT http_status FROM shortener.resolve('$code')"), 302, 'and no more when they are not');
$session->quit;

$node->stop;
done_testing();
