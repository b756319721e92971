# Two tenants on the same sessions, through PgBouncer in transaction mode: a hundred thousand transactions, none of which
# sees what another one's key opened.
use strict;
use warnings;

use Cwd qw(getcwd);
use Frontend;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = database('tenant_pooler');
$node->safe_psql('postgres', q{SELECT shortener.create_workspace('acme'), shortener.create_workspace('beta');
	CREATE ROLE app LOGIN;
	SELECT shortener.grant_access('app', 'writer'), shortener.bind_role('app', NULL);
	SELECT count(shortener.shorten('https://acme.example/' || i, 'acme')), count(shortener.shorten('https://beta.example/' || i, 'beta')) FROM generate_series(1, 10) i});
my $dir = PostgreSQL::Test::Utils::tempdir();
my $port = PostgreSQL::Test::Cluster::get_free_port();
my ($host, $server_port) = ($node->host, $node->port);
append_to_file("$dir/pgbouncer.ini", <<"INI");
[databases]
postgres = host=$host port=$server_port user=app
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $port
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 3
max_client_conn = 100
INI
my $pooler = fork // die "fork: $!";
if (!$pooler)
{
	open STDERR, '>', "$dir/pgbouncer.log" or die $!;
	exec getcwd() . '/.build/peers/bin/pgbouncer', "$dir/pgbouncer.ini" or die "pgbouncer: $!";
}
END { my $status = $?; kill 'KILL', $pooler if $pooler; waitpid $pooler, 0 if $pooler; $? = $status; }
eventually { IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port) };

# Each transaction fails unless it sees its own ten links and no others, or, without a key, none.
my @scripts;
for my $tenant ('acme', 'beta')
{
	my $key = $node->safe_psql('postgres', "SELECT shortener.create_api_key('$tenant', rate_limit => NULL, workspace => '$tenant')");
	my $check = "SELECT 1 / (CASE WHEN count(*) = 10 AND bool_and(original_url ~ '$tenant') AND shortener.current_workspace() = '$tenant' THEN 1 ELSE 0 END) FROM shortener.link";
	append_to_file("$dir/$tenant.sql", "BEGIN\\; SELECT shortener.authenticate('$key')\\; $check\\; COMMIT;\n");
	append_to_file("$dir/$tenant-back.sql", "BEGIN\\; SELECT shortener.authenticate('$key')\\; $check\\; ROLLBACK;\n");
	push @scripts, '-f', "$dir/$tenant.sql\@4", '-f', "$dir/$tenant-back.sql\@1";
}
append_to_file("$dir/nobody.sql", "SELECT 1 / (CASE WHEN count(*) = 0 AND shortener.current_workspace() IS NULL THEN 1 ELSE 0 END) FROM shortener.link;\n");
push @scripts, '-f', "$dir/nobody.sql\@2";

my ($out, $errors) = ('', '');
IPC::Run::run([ 'pgbench', '-n', '-c', 20, '-j', 2, '-t', 5000, '-h', '127.0.0.1', '-p', $port, '-U', 'app', @scripts, 'postgres' ],
	'>', \$out, '2>', \$errors, IPC::Run::timeout(600));
is($errors, '', 'no transaction saw anything foreign');
like($out, qr{number of transactions actually processed: 100000/100000}, 'of a hundred thousand');
cmp_ok($node->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE usename = 'app'}), '<=', 3, 'on three sessions');

$node->stop;
done_testing();
