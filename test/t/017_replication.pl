# A subscriber of logical replication that has what the documentation tells it to have answers as the publisher does, and
# gives a URL the code that it has there.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my ($publisher, $subscriber) = map { PostgreSQL::Test::Cluster->new($_) } qw(publisher subscriber);
for my $node ($publisher, $subscriber)
{
	$node->init(allows_streaming => 'logical');
	$node->append_conf('postgresql.conf', 'fsync = off');
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION shortener CASCADE; CALL shortener.install()');
}
sub there { return $publisher->safe_psql('postgres', $_[0]); }
sub here { return $subscriber->safe_psql('postgres', $_[0]); }

# The steps of docs/operations.md, from the file itself.
my $document = slurp_file('docs/operations.md');
my ($publish) = $document =~ /^(CREATE PUBLICATION shortener .*?;)$/ms or die 'the document has no publication';
my ($clear, $subscribe) = $document =~ /^(TRUNCATE [^;]*;)[^\n]*\n(CREATE SUBSCRIPTION shortener [^;]*;)/ms or die 'the document has no subscription';
my $connection = sprintf 'host=%s port=%d dbname=postgres', $publisher->host, $publisher->port;
$subscribe =~ s/CONNECTION '[^']*'/CONNECTION '$connection'/ or die 'the subscription has no connection';

my $published = join ' ', sort $publish =~ /shortener\.(\w+)/g;
is($published, there(q{SELECT string_agg(relname, ' ' ORDER BY relname COLLATE "C") FROM pg_class
	WHERE relnamespace = 'shortener'::regnamespace AND relkind = 'r' AND relname NOT IN ('installation', 'link_archive') AND relname !~ '^(cleanup|click)_'
	AND relname NOT IN ('user_agent', 'referrer', 'place', 'unknown_code')
	AND relname NOT IN ('workspace_user', 'user_password', 'api_key', 'api_key_use', 'role_workspace', 'role_access')}),
	'all tables are published but those of the installation, of the cleanup, of the clicks and of access');

there(q{SELECT shortener.create_workspace('team', code_style => 'sequential'), shortener.add_domain('go.example', 'team'), shortener.block_host('evil.example'), shortener.reserve_code('ours')});
my $before = there(q{SELECT shortener.shorten('https://before.example/')});
there($publish);
here($clear);
here($subscribe);
$subscriber->wait_for_subscription_sync($publisher, 'shortener');
my ($after, $team) = map { there("SELECT shortener.shorten('https://after.example/'$_)") } '', q{, 'team'};
there(q{SELECT shortener.create_link('https://a.example/', alias => 'removed'), shortener.create_link('https://a.example/', alias => 'deleted')});
there(q{DELETE FROM shortener.link WHERE short_code = 'removed'; SELECT shortener.delete_link('deleted'); SELECT shortener.block_host('worse.example')});
$publisher->wait_for_catchup('shortener');

is(here(q{SELECT shortener.shorten('https://before.example/')}), $before, 'a URL that had a code has the same one on the subscriber');
is(here(q{SELECT shortener.shorten('http://after.example')}), $after, 'so has one that came later');
is(here(q{SELECT short_code FROM shortener.shorten_many('{https://after.example/}', 'team')}), $team, 'in its own workspace');
is(here(qq{SELECT string_agg(http_status::text, ' ' ORDER BY n) FROM unnest('{$before,$after,removed,deleted,nothing}'::text[]) WITH ORDINALITY c (code, n), shortener.resolve(code)}),
	'302 302 410 410 404', 'codes answer as they do on the publisher');
is(here(qq{SELECT location FROM shortener.resolve('$team', 'go.example')}), 'https://after.example/', 'hosts, too');
my ($status, $out, $error) = $subscriber->psql('postgres', q{SELECT shortener.shorten('https://worse.example/')});
like($error, qr/blocked host/, 'what is blocked there is blocked here');

# The subscriber takes over.
here('DROP SUBSCRIPTION shortener');
my ($number) = $document =~ /^(SELECT setval\([^\n]*\);)/m or die 'the document sets no sequence';
my $last = there('SELECT last_value FROM shortener.link_id_seq');
$number =~ s/\b1234\b/$last/ or die 'the example has no number';
here($number);
my $new = here(q{SELECT shortener.shorten('https://new.example/')});
is(there("SELECT count(*) FROM shortener.link WHERE short_code = '$new'"), 0, 'a new link has a code of its own');
is(here(q{SELECT count(*) FROM (SELECT shortener.delete_link('removed')) d, shortener.resolve('removed') WHERE http_status = 410}), 1, 'and what was gone stays gone');

$_->stop for $subscriber, $publisher;
done_testing();
