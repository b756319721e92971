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
$node->safe_psql('postgres', qq{
	CREATE TABLE finding AS SELECT p.proname, c.*
	FROM (SELECT p.* FROM $routines AND p.prorettype <> 'trigger'::regtype) p,
		plpgsql_check_function_tb(p.oid, fatal_errors => false, security_warnings => true) c});
is($node->safe_psql('postgres', q{
	SELECT format('%s line %s: %s: %s', proname, lineno, level, concat_ws(' ', message, detail, hint)) FROM finding
	WHERE level <> 'security' ORDER BY 1}), '', 'plpgsql_check finds nothing');

# Statements that are put together from text, and why it is safe.
my %safe = (
	apply_access => 'privileges and objects are of access_commands, which quotes them',
	revoke_access => 'privileges and objects are of access_commands, which quotes them',
	apply_redirector_policies => 'commands are constants; the list is of quote_ident',
);
is($node->safe_psql('postgres', q{SELECT DISTINCT proname FROM finding WHERE level = 'security' ORDER BY 1}), join("\n", sort keys %safe),
	'no statement is put together from text that was not looked at');

$node->stop;
done_testing();
