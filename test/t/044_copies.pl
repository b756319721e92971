# A rule that stands in several places, because these cannot share it: when a link redirects. Those that SQL alone can
# compare are in test/pgtap/workspaces.sql.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('copies');
$node->init;
$node->append_conf('postgresql.conf', 'fsync = off');
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION shortener CASCADE; CALL shortener.install()');
sub value { return $node->safe_psql('postgres', $_[0]); }

# For resolve, for two views, and for the trigger that tells caches of its removal.
my $listener = $node->background_psql('postgres');
$listener->query_safe('LISTEN shortener');
my $number = 0;
for my $is_active ('true', 'false')
{
	for my $deleted_at ('NULL', 'now()')
	{
		for my $expires_at ('NULL', "now() - interval '1 day'", "now() + interval '1 day'")
		{
			my $code = 'state-' . $number++;
			my $state = "is_active $is_active, deleted_at $deleted_at, expires_at $expires_at";
			my $active = value('SELECT active FROM shortener.link_overview');
			value(qq{INSERT INTO shortener.link (workspace_id, short_code, original_url, redirect_status, is_active, deleted_at, expires_at)
				VALUES (1, '$code', 'https://example.com/', 302, $is_active, $deleted_at, $expires_at)});
			my $redirects = value("SELECT (http_status = 302)::integer FROM shortener.resolve('$code')");
			is($redirects, ($is_active eq 'true' && $deleted_at eq 'NULL' && $expires_at !~ /-/) ? 1 : 0, "resolve: $state");
			is(value("SELECT count(*) FROM shortener.active_links WHERE short_code = '$code'"), $redirects, "active_links: $state");
			is(value('SELECT active FROM shortener.link_overview') - $active, $redirects, "link_overview: $state");
			$listener->query_safe('SELECT 1');
			value("DELETE FROM shortener.link WHERE short_code = '$code'");
			my $told = () = $listener->query_safe('SELECT 1') =~ /^Asynchronous notification/mg;
			is($told, $redirects, "after_link_delete: $state");
		}
	}
}
$listener->quit;

$node->stop;
done_testing();
