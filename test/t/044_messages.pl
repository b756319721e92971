# What errors show in the log: no passwords.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('messages');
$node->init;
$node->append_conf('postgresql.conf', "log_statement = none\nlog_parameter_max_length_on_error = -1\n");
$node->start;
$node->safe_psql('postgres', q{
	CREATE EXTENSION shortener CASCADE; CALL shortener.install();
	SELECT shortener.create_link('https://a.example/', alias => 'known'), shortener.create_user('a@b.example')});

# The log beside errors.
my $offset = -s $node->logfile;
for my $call (q{set_password('nobody@b.example', 'hunter2')}, q{set_password('a@b.example', 'hunter2', 'nowhere')}, q{verify_password('a@b.example', 'hunter2', 'nowhere')},
	q{SET_PASSWORD('a@b.example', 'hunter2' || repeat('x', 80))}, q{hash_password('hunter2')}, q{set_password('a@b.example', 'hunter2'})
{
	my ($status) = $node->psql('postgres', "SELECT shortener.shorten(NULL); SELECT shortener.$call");
	is($status, 3, "$call fails");
}
my $script = PostgreSQL::Test::Utils::tempdir() . '/parameter.sql';
append_to_file($script, "SELECT shortener.shorten(NULL);\nSELECT shortener.set_password('somebody\@b.example', :password);\n");
run_log([ 'pgbench', '-n', '-t', 1, '-M', 'extended', '-D', 'password=hunter2', '-f', $script, '-h', $node->host, '-p', $node->port, 'postgres' ]);
my $log = substr(slurp_file($node->logfile), $offset);
like($log, qr/ERROR:  user "nobody\@b\.example" does not exist/, 'errors are logged');
like($log, qr/somebody.*unnamed portal with parameters:$/ms, 'also those with parameters');
unlike($log, qr/hunter2/, 'without the passwords of their statements');
$node->psql('postgres', 'SELECT shortener.shorten(NULL); SELECT reset_password(42)');
like(substr(slurp_file($node->logfile), $offset), qr/reset_password\(42\)$/m, 'other statements are logged');

$node->stop;
done_testing();
