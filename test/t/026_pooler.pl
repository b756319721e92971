# Behind PgBouncer in transaction mode, where every statement may meet another session of the server, in which nothing
# was prepared.
use strict;
use warnings;

use Cwd qw(getcwd);
use Frontend;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = database('pooler');
$node->safe_psql('postgres', q{SELECT count(shortener.create_link('https://to.example/' || i, alias => 'n' || i)) FROM generate_series(1, 300) i});

my $dir = PostgreSQL::Test::Utils::tempdir();
my $port = PostgreSQL::Test::Cluster::get_free_port();
my ($host, $server_port, $user) = ($node->host, $node->port, getpwuid $>);
# Later ones know prepared statements, from 1.24 on unless they are told not to.
my $program = getcwd() . '/.build/peers/bin/pgbouncer';
my ($version) = `$program --version` =~ /^PgBouncer 1\.(\d+)/ or die 'no version of PgBouncer';
my $no_prepared_statements = $version >= 21 ? 'max_prepared_statements = 0' : '';
append_to_file("$dir/pgbouncer.ini", <<"INI");
[databases]
postgres = host=$host port=$server_port user=$user
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $port
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 1
admin_users = $user
$no_prepared_statements
INI
my $pooler = fork // die "fork: $!";
if (!$pooler)
{
	open STDERR, '>', "$dir/pgbouncer.log" or die $!;
	exec $program, "$dir/pgbouncer.ini" or die "pgbouncer: $!";
}
END { my $status = $?; kill 'KILL', $pooler; waitpid $pooler, 0; $? = $status; }

my $frontend = Frontend->start(database => "host=127.0.0.1 port=$port dbname=postgres user=$user", flags => [ '--primary', $node->connstr('postgres') ]);

# Asks for the next hundred links; gives how often a prepared statement was missing by now.
my $next = 0;
sub hundred_links
{
	my @numbers = map { ++$next } 1 .. 100;
	my @locations = map { $frontend->location("/n$_") // '' } @numbers;
	is_deeply(\@locations, [ map { "https://to.example/$_" } @numbers ], 'a hundred links are found');
	return scalar(() = slurp_file($node->logfile) =~ /prepared statement "shortenerd_\d+" does not exist/g);
}
is(hundred_links(), 0, '... in a session where the statements are prepared');

# Another session of the server, for the same two connections to the pooler.
$node->command_ok([ 'psql', '-Xqc', 'RECONNECT', "host=127.0.0.1 port=$port dbname=pgbouncer user=$user" ], 'the pooler connects to the server anew');
is(hundred_links(), 2, '... in one where they are not, which each connection noticed');
is(hundred_links(), 2, '... once');
is($frontend->metrics->{'requests_total{status="503"}'}, 0, 'no visitor noticed');

$node->safe_psql('postgres', q{SELECT shortener.update_link('n1', url => 'https://to.example/changed')});
ok(eventually { $frontend->location('/n1') eq 'https://to.example/changed' }, 'a change is heard past the pooler');

$frontend->stop;
$node->stop;
done_testing();
