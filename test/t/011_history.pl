# After every history of a URL its code is what a simple model says.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my ($histories, $steps) = (200, 40);

my $node = PostgreSQL::Test::Cluster->new('history');
$node->init;
$node->append_conf('postgresql.conf', 'fsync = off');
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION shortener CASCADE; CALL shortener.install()');

srand(4);
my ($aliases, @script, @expected) = (0);

# The model of a URL: its live link, if any, as a number of our own, and how all links that it ever had stand.
for my $history (1 .. $histories)
{
	my $url = "https://example.com/history/$history";
	my ($live, @links);    # each { state => active | disabled | expired | deleted }
	my $show = sub {
		# Codes differ from run to run: name each by the order of its first appearance.
		push @script, "SELECT 'h$history:' || (SELECT string_agg(status::text, ',' ORDER BY n) FROM "
		  . "(SELECT n, (SELECT http_status FROM shortener.resolve(code)) AS status FROM seen WHERE history = $history) s);";
		push @expected, "h$history:" . join ',', map { $_->{state} eq 'active' ? 302 : 410 } @links;
	};
	my $shorten = sub {
		if (!$live) { push @links, $live = { state => 'active' }; }
		elsif ($live->{state} eq 'expired') { $live->{state} = $live->{disabled} ? 'disabled' : 'active'; }
		my ($place) = grep { $links[ $_ - 1 ] == $live } 1 .. @links;
		push @script, "INSERT INTO seen SELECT $history, shortener.shorten('$url') ON CONFLICT DO NOTHING;",
		  "SELECT 'code ' || n FROM (SELECT code, row_number() OVER (ORDER BY n) AS n FROM seen WHERE history = $history) s WHERE code = shortener.shorten('$url');";
		push @expected, "code $place";
	};
	my $code = "(SELECT code FROM seen WHERE history = $history ORDER BY n DESC LIMIT 1)";
	my %act = (
		shorten => $shorten,
		delete => sub {
			push @script, "SELECT shortener.delete_link($code);";
			push @expected, $live ? 't' : 'f';
			if ($live) { $live->{state} = 'deleted'; undef $live; }
		},
		disable => sub {
			push @script, "SELECT shortener.disable_link($code);";
			push @expected, $live ? 't' : 'f';
			if ($live) { $live->{disabled} = 1; $live->{state} = 'disabled' if $live->{state} eq 'active'; }
		},
		enable => sub {
			push @script, "SELECT shortener.enable_link($code);";
			push @expected, $live ? 't' : 'f';
			if ($live) { $live->{disabled} = 0; $live->{state} = 'active' if $live->{state} eq 'disabled'; }
		},
		expire => sub {
			push @script, "UPDATE shortener.link SET expires_at = now() - '1 s'::interval WHERE short_code = $code AND deleted_at IS NULL;";
			$live->{state} = 'expired' if $live;
		},
		alias => sub {
			push @script, "SELECT created FROM shortener.create_link('$url', alias => 'a$history-" . ++$aliases . "');";
			push @expected, 't';
		});
	for my $step (1 .. $steps)
	{
		my @names = sort keys %act;
		$act{ $names[ rand @names ] }->();
	}
	$shorten->();
	$show->();
}

my $script = join "\n", 'CREATE TABLE seen (history int, code text, n serial, UNIQUE (history, code));', @script;
my @given = split /\n/, $node->safe_psql('postgres', $script);
is(scalar @given, scalar @expected, scalar(@expected) . ' answers');
my @wrong = grep { $given[$_] ne $expected[$_] } 0 .. $#expected;
is(scalar @wrong, 0, "$histories histories of $steps steps go as the model says")
  or diag("answer $wrong[0]: $given[$wrong[0]] instead of $expected[$wrong[0]]");

$node->stop;
done_testing();
