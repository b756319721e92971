# docs/monitoring: what its queries show through prometheus-postgres-exporter, and when its rules for Prometheus fire.
use strict;
use warnings;

use Cwd qw(getcwd);
use Frontend;
use IO::Socket::INET;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $dir = PostgreSQL::Test::Utils::tempdir();
my $monitoring = getcwd() . '/docs/monitoring';
my $promtool = getcwd() . '/.build/peers/prometheus/usr/bin/promtool';
my $node = database('monitoring');
sub value { return $node->safe_psql('postgres', $_[0]); }

# The role, as docs/operations.md makes it.
my ($role) = slurp_file('docs/operations.md') =~ /```sql\n(CREATE ROLE prometheus .*?)```/s or BAIL_OUT('docs/operations.md: no role');
value($role);

# Things to count: two clicks pending and one of another year, an unknown code, a cleanup, a link that should be gone.
value(q{
	SELECT shortener.add_domain('go.example'), shortener.create_workspace('tenant');
	SELECT shortener.create_link('https://to.example/a', alias => 'a'), shortener.create_link('https://to.example/b', alias => 'b', workspace => 'tenant');
	SELECT shortener.record_clicks(gen_random_uuid(), array_agg(id), array_agg(now())) FROM shortener.link;
	CALL shortener.rollup_clicks();
	SELECT shortener.record_clicks(gen_random_uuid(), array_agg(id), array_agg(now())) FROM shortener.link;
	SELECT shortener.record_clicks(gen_random_uuid(), '{1}', '{2001-01-01}');
	SELECT shortener.record_unknown_codes(gen_random_uuid(), '{x,x,y}', '{go.example,go.example,go.example}');
	CALL shortener.cleanup_expired();
	UPDATE shortener.link SET expires_at = now() - interval '40 days' WHERE short_code = 'b';
	UPDATE shortener.click_pending SET received_at = now() - interval '20 minutes'});

sub free_port
{
	my $socket = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 1);
	return $socket->sockport;
}

my $exporter_port = free_port();
my $exporter = fork // die "fork: $!";
if (!$exporter)
{
	$ENV{DATA_SOURCE_NAME} = $node->connstr('postgres') . ' user=prometheus sslmode=disable';
	open STDERR, '>', "$dir/exporter.log" or die "exporter.log: $!";
	open STDOUT, '>&', \*STDERR or die $!;
	exec getcwd() . '/.build/peers/bin/prometheus-postgres-exporter', "--web.listen-address=127.0.0.1:$exporter_port", "--extend.query-path=$monitoring/queries.yaml";
}
END { my $status = $?; if ($exporter) { kill 'KILL', $exporter; waitpid $exporter, 0; } $? = $status; }

sub exporter_page { return Frontend::Client->new($exporter_port)->request('GET', '/metrics', version => '1.0')->{body} // ''; }
my $exported = eventually { my $page = exporter_page(); $page =~ /^shortener_clicks_pending/m ? $page : '' };
$exported or BAIL_OUT("no metrics of ours:\n" . slurp_file("$dir/exporter.log"));

# Samples by name, without the label `server` that the exporter adds.
my %shown = map { s/,?server="[^"]*"//r =~ s/\{\}//r =~ /^(shortener_\S+) (\S+)$/ ? ($1 => $2) : () } split /\n/, $exported;
my %expected = (
	shortener_clicks_pending => 2,
	shortener_clicks_rolled_up_total => 2,
	shortener_clicks_received => 4,
	shortener_clicks_unknown_links => 0,
	shortener_clicks_refused => 1,
	shortener_click_partitions_months_ahead => 3,
	shortener_cleanup_removed_total => 0,
	shortener_cleanup_successful_runs_total => 1,
	shortener_cleanup_failed_runs_total => 0,
	shortener_cleanup_is_running => 0,
	shortener_links_overdue => 1,
	'shortener_unknown_codes_visits{host="go.example"}' => 3,
	'shortener_unknown_codes_codes{host="go.example"}' => 2);
my %changing = (
	shortener_clicks_oldest_pending_seconds => 1200,
	shortener_clicks_last_rollup_timestamp_seconds => time,
	shortener_cleanup_last_end_timestamp_seconds => time);
is($shown{$_}, $expected{$_}, $_) for sort keys %expected;
cmp_ok(abs(($shown{$_} // 0) - $changing{$_}), '<', 300, "$_, about") for sort keys %changing;
is_deeply([ sort keys %shown ], [ sort keys %expected, keys %changing ], 'and nothing else');
like($exported, qr/^pg_exporter_last_scrape_error 0$/m, 'the exporter had no error');

# The rules.
is(run_log([ $promtool, 'check', 'rules', "$monitoring/alerts.yaml" ]), 1, 'promtool finds the rules well formed');
my $rules = slurp_file("$monitoring/alerts.yaml");

# Each metric they speak of is one that somebody shows.
my $frontend = Frontend->start(database => $node->connstr('postgres'));
my %known = map { /^(\w+)/ ? ($1 => 1) : () } split(/\n/, $exported), split(/\n/, $frontend->admin('/metrics')->{body});
$frontend->stop;
my %spoken_of = map { $_ => 1 } $rules =~ /\b((?:shortenerd?|pg)_\w+)/g;
is_deeply([ grep { !$known{$_} } sort keys %spoken_of ], [], 'the rules speak of no metric that nobody shows');

# Each alert: samples minute by minute for which it fires after so many minutes, and samples for which it never does.
my $scraped = 'instance="a",job="shortenerd"';
my $exporter_labels = 'instance="b",job="postgres"';
my @alerts = (
	[ 'ShortenerdDown', 5, [ qq(up{$scraped}) => '0x10', '1x10' ] ],
	[ 'ShortenerdWithoutDatabase', 5, [ qq(shortenerd_database_connections{$scraped}) => '0x10', '1x10' ] ],
	[ 'ShortenerdUnavailable', 15, [ qq(shortenerd_requests_total{$scraped,status="503"}) => '0+10x20', '0+1x20' ], [ qq(shortenerd_requests_total{$scraped,status="302"}) => ('0+500x20') x 2 ] ],
	[ 'ShortenerdDatabaseErrors', 15, [ qq(shortenerd_database_errors_total{$scraped}) => '0+1x20', '7x20' ] ],
	[ 'ShortenerdNotListening', 5, [ qq(shortenerd_listening{$scraped}) => '0x10', '1x10' ] ],
	[ 'ShortenerdRefusesConnections', 5, [ qq(shortenerd_connections_refused_total{$scraped}) => '0+1x10', '7x10' ] ],
	[ 'ShortenerdDropsClicks', 5, [ qq(shortenerd_clicks_dropped_total{$scraped}) => '0+1x10', '7x10' ] ],
	[ 'ShortenerdClicksWait', 10, [ qq(shortenerd_clicks_waiting{$scraped}) => '20000x15', '20000 5 20000 20000 20000 20000 5 20000 20000 20000 5 20000 20000' ] ],
	[ 'ShortenerQueriesFail', 10, [ qq(pg_up{$exporter_labels}) => '0x15', '1x15' ], [ qq(shortener_clicks_pending{$exporter_labels}) => '_x15', '1x15' ] ],
	[ 'ShortenerRollupLate', 1, [ qq(shortener_clicks_oldest_pending_seconds{$exporter_labels}) => '700x5', '500x5' ] ],
	[ 'ShortenerClicksRefused', 10, [ qq(shortener_clicks_refused{$exporter_labels}) => '0+1x15', '9-1x15' ] ],
	[ 'ShortenerNoPartitionsAhead', 200, [ qq(shortener_click_partitions_months_ahead{$exporter_labels}) => '1x210', '2x210' ] ],
	[ 'ShortenerCleanupFails', 60, [ qq(shortener_cleanup_failed_runs_total{$exporter_labels}) => '0x50 1x20', '7x70' ] ],
	[ 'ShortenerCleanupLate', 370, [ qq(shortener_links_overdue{$exporter_labels}) => '3x400', '0x400' ] ]);
is_deeply([ sort map { $_->[0] } @alerts ], [ sort $rules =~ /alert: (\w+)/g ], 'each alert is tried');

# Whether promtool finds that the alert fires, with the samples of that place.
sub fires
{
	my ($place, $alert, $minutes, @series) = @_;
	my $text = "rule_files: ['$monitoring/alerts.yaml']\nevaluation_interval: 1m\ntests:\n  - interval: 1m\n    input_series:\n";
	$text .= "      - {series: '$_->[0]', values: '$_->[$place]'}\n" for @series;
	$text .= "    promql_expr_test:\n      - expr: count(ALERTS{alertname=\"$alert\",alertstate=\"firing\"}) > bool 0 or vector(0)\n        eval_time: ${minutes}m\n        exp_samples: [{labels: '{}', value: ";
	my ($one) = grep { run_promtool("$text$_}]\n") } 0, 1;
	return $one;
}
sub run_promtool
{
	my ($text) = @_;
	my $file = "$dir/rules_test.yaml";
	unlink $file;
	append_to_file($file, $text);
	return run_log([ $promtool, 'test', 'rules', $file ]);
}
for (@alerts)
{
	my ($alert, $minutes, @series) = @$_;
	is(fires(1, @$_), 1, "$alert fires");
	is(fires(2, @$_), 0, '... and not when all is well');
}

$node->stop;
done_testing();
