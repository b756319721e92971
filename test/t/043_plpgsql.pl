# Every PL/pgSQL routine of the schema through plpgsql_check: what names no object, has a wrong type or is never read.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('plpgsql');
$node->init;
$node->append_conf('postgresql.conf', "fsync = off\nshared_preload_libraries = 'pg_cron'\ncron.database_name = 'postgres'\nmax_worker_processes = 8");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION pg_cron; CREATE EXTENSION plpgsql_check; CREATE EXTENSION shortener CASCADE; CALL shortener.install()');

my $routines = q{pg_proc p JOIN pg_language l ON l.oid = p.prolang
	WHERE l.lanname = 'plpgsql' AND p.pronamespace = 'shortener'::regnamespace};
cmp_ok($node->safe_psql('postgres', "SELECT count(*) FROM $routines AND p.prorettype <> 'trigger'::regtype"), '>', 10, 'there are routines to check');
is($node->safe_psql('postgres', "SELECT p.proname FROM $routines AND p.prorettype = 'trigger'::regtype"), '', 'no trigger function, which would need its table');
is($node->safe_psql('postgres', qq{
	SELECT format('%s line %s: %s: %s', p.proname, c.lineno, c.level, concat_ws(' ', c.message, c.detail, c.hint))
	FROM (SELECT p.* FROM $routines AND p.prorettype <> 'trigger'::regtype) p,
		plpgsql_check_function_tb(p.oid, fatal_errors => false, security_warnings => true) c
	ORDER BY 1}), '', 'plpgsql_check finds nothing');

$node->stop;
done_testing();
