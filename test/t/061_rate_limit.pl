# The limit of an API key is exact, however many clients use it at once, and whatever becomes of their transactions.
use strict;
use warnings;

use Frontend;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = database('rate_limit', 'max_connections = 100');
$node->safe_psql('postgres', q{CREATE ROLE app LOGIN; SELECT shortener.grant_access('app', 'writer')});
my $dir = PostgreSQL::Test::Utils::tempdir();

# Uses a key in 64 sessions, each until it is refused; gives how many transactions succeeded and the errors.
sub use_up
{
	my ($script) = @_;
	append_to_file("$dir/$script->{name}.sql", $script->{sql});
	my ($out, $errors) = ('', '');
	IPC::Run::run([ 'pgbench', '-n', '-c', 64, '-j', 2, '-t', 100, '-U', 'app', '-h', $node->host, '-p', $node->port, '-f', "$dir/$script->{name}.sql", 'postgres' ],
		'>', \$out, '2>', \$errors, IPC::Run::timeout(120));
	my ($processed) = $out =~ /number of transactions actually processed: (\d+)/;
	return ($processed, $errors);
}

my $key = $node->safe_psql('postgres', q{SELECT shortener.create_api_key('limited', rate_limit => 1000)});
my ($processed, $errors) = use_up({ name => 'commit', sql => "SELECT shortener.authenticate('$key');" });
is($processed, 1000, '64 clients, a limit of 1,000: exactly 1,000 are accepted');
like($errors, qr/has reached its limit of 1000 uses per hour; try again in 3\d\d\d seconds/, 'the others are told how long to wait');
is(scalar(() = $errors =~ /SQLSTATE|has reached its limit/g), 64, '... all of them');
is($node->safe_psql('postgres', q{SELECT usage_count FROM shortener.api_keys WHERE name = 'limited'}), 1000, 'they are counted');

my $rolled_back = $node->safe_psql('postgres', q{SELECT shortener.create_api_key('rolled back', rate_limit => 1000)});
($processed) = use_up({ name => 'rollback', sql => "BEGIN;\nSELECT shortener.authenticate('$rolled_back');\nROLLBACK;" });
is($processed, 1000, 'a transaction that is rolled back has used the key all the same');

my $read_only = $node->safe_psql('postgres', q{SELECT shortener.create_api_key('read only', rate_limit => 1)});
is($node->safe_psql('postgres', "BEGIN READ ONLY; SELECT shortener.authenticate('$read_only'); COMMIT"), 'default', 'a transaction that only reads can use a key');
my ($status, $out, $err) = $node->psql('postgres', "BEGIN READ ONLY; SELECT shortener.authenticate('$read_only'); COMMIT");
like($err, qr/has reached its limit/, '... and is counted');

# A crash forgets at most what was not yet written to the log, which a transaction that writes waits for.
$node->safe_psql('postgres', 'CHECKPOINT');
my $survivor = $node->safe_psql('postgres', q{SELECT shortener.create_api_key('survivor', rate_limit => 10)});
$node->safe_psql('postgres', "SELECT count(shortener.authenticate('$survivor')) FROM generate_series(1, 10); CREATE TABLE written_after (x int)");
$node->stop('immediate');
$node->start;
($status, $out, $err) = $node->psql('postgres', "SELECT shortener.authenticate('$survivor')");
like($err, qr/has reached its limit/, 'a crash forgets no use');
is($node->safe_psql('postgres', q{VACUUM FULL shortener.api_key_use; SELECT window_uses FROM shortener.api_key_use u JOIN shortener.api_key k ON k.id = u.key_id WHERE k.name = 'survivor'}), 10, 'the row is an ordinary one');

# A standby knows the keys, and cannot count.
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
my $reading = $node->safe_psql('postgres', q{SELECT count(shortener.shorten('https://example.com/')); SELECT shortener.create_api_key('reading', rate_limit => 1)});
$reading =~ s/.*\n//s;
$node->wait_for_catchup($standby);
my $session = $standby->background_psql('postgres', on_error_stop => 0, extra_params => [ '-U', 'app' ]);
is($session->query("SELECT shortener.authenticate('$reading', true) FROM generate_series(1, 3)"), "default\ndefault\ndefault", 'a standby checks a key, and not its limit');
is($session->query('SELECT count(*), shortener.current_api_key() FROM shortener.link'), '1|' . substr($reading, 0, 11), '... which opens the links');
$node->safe_psql('postgres', "SELECT shortener.revoke_api_key('" . substr($reading, 0, 11) . q{')});
$node->wait_for_catchup($standby);
$session->query('SELECT count(*) FROM shortener.link');
like($session->{stderr}, qr/has been revoked/, '... until it is revoked on the primary');
$session->quit;
($status, $out, $err) = $standby->psql('postgres', "SELECT shortener.authenticate('$reading')");
like($err, qr/has been revoked/, '... for everybody');
$standby->stop;

$node->stop;
done_testing();
