# Clicks from visitor to table: who counts, what is sent again, what is lost.
use strict;
use warnings;

use Frontend;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = database('clicks');
sub value { return $node->safe_psql('postgres', $_[0]); }
value(q{SELECT shortener.create_link('https://to.example/a', alias => 'a'), shortener.create_link('https://to.example/b', alias => 'b', redirect_status => 307)});
value(q{SELECT shortener.add_domain('go.example'), shortener.create_link('https://to.example/gone', alias => 'gone'), shortener.delete_link('gone')});
sub recorded { return value('SELECT count(*) FROM shortener.click_event'); }
my $connstr = $node->connstr('postgres') . ' application_name=shortenerd';
my $frontend = Frontend->start(database => $connstr, clicks => 1, flags => [ '--trusted-proxy', '127.0.0.1' ]);
sub metric { return $frontend->metrics->{ $_[0] }; }
sub until_recorded { my ($count) = @_; return eventually { recorded() == $count }; }

# What is a click.
$frontend->get('/a', 'User-Agent' => 'Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0', Referer => 'https://from.example/page', 'X-Forwarded-For' => '203.0.113.77');
$frontend->get('/a') for 1 .. 4;
$frontend->request('HEAD', '/a');
$frontend->get('/a', 'Sec-Purpose' => 'prefetch;prerender');
$frontend->get('/a', 'Purpose' => 'prefetch');
$frontend->request('POST', '/b', body => 'x');
$frontend->get('/unknown');
ok(until_recorded(5), 'five visits are five clicks, neither HEAD, POST, prefetch nor unknown codes are');
sleep 0.5;
is(recorded(), 5, '... and no more');
is(value(q{SELECT host(ip) FROM shortener.click_event WHERE ip << '203.0.113.0/24'}), '203.0.113.0', '... with the address that a trusted proxy names, made anonymous');
$frontend->get('/a', 'User-Agent' => "\xff\xfe\"\\{}, NULL" . 'x' x 1000, Referer => 'https://from.example/"\\,{}');
ok(until_recorded(6), 'a visit with odd bytes is a click');
is(metric('clicks_dropped_total'), 0, 'nothing was dropped');

# Many: in batches of a thousand.
is_deeply($frontend->growth(sub {
	my @clients = map { $frontend->connect } 1 .. 10;
	$_->send(Frontend::Client::format_request('GET', '/b') x 300) for @clients;
	$_->head_statuses(300) for @clients;
	ok(until_recorded(3006), 'three thousand visits are as many clicks');
	eventually { metric('clicks_waiting') == 0 };
})->{clicks_recorded_total}, 3000, '... recorded once each');
cmp_ok(metric('click_batches_total'), '<', 100, '... in ' . metric('click_batches_total') . ' batches');

# Visits of codes that do not exist.
sub visits { return value(q{SELECT string_agg(host || '/' || code || ' ' || visits, ', ' ORDER BY host, code) FROM shortener.unknown_code}); }
sub until_visits { my ($expected) = @_; return eventually { visits() eq $expected }; }
ok(until_visits('/unknown 1'), 'a visit of an unknown code is recorded');
$frontend->get('/salle', Host => 'GO.example:80') for 1 .. 3;
$frontend->get('/salle');
$frontend->get('/salle', Host => 'other.example');
$frontend->request('HEAD', '/salle');
$frontend->request('POST', '/salle', body => 'x');
$frontend->get('/salle', 'Sec-Purpose' => 'prefetch');
$frontend->get('/no/code');
is($frontend->status('/gone'), 410, 'a deleted link is gone');
ok(until_visits('/salle 2, /unknown 1, go.example/salle 3'), '... each by its host, from the cache or not, and nothing else is') or diag(visits());
is(metric('unknown_visits_dropped_total'), 0, 'no visit was dropped');
is(recorded(), 3006, 'they are no clicks');

# The database is away; connections are lost in the middle.
$node->stop('immediate');
$frontend->get('/a') for 1 .. 50;
$frontend->get('/salle') for 1 .. 10;
is(metric('clicks_waiting'), 50, 'without a database clicks wait');
is(metric('unknown_visits_waiting'), 10, '... and so do visits of unknown codes');
sleep 10;
$frontend->get('/a') for 1 .. 50;
$node->start;
ok(until_recorded(3106), '... and are recorded when it is back');
ok(until_visits('/salle 12, /unknown 1, go.example/salle 3'), '... all of them') or diag(visits());
for my $round (1 .. 20)
{
	$frontend->get('/a') for 1 .. 20;
	value(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'shortenerd' AND query LIKE '%record_clicks%'});
}
ok(until_recorded(3506), 'lost connections cost no click');
sleep 1;
is(recorded(), 3506, '... and count none twice');

is(visits(), '/salle 12, /unknown 1, go.example/salle 3', '... nor a visit of an unknown code');

# The end.
$frontend->get('/a') for 1 .. 100;
$frontend->get('/salle') for 1 .. 100;
$frontend->stop;
is(recorded(), 3606, 'SIGTERM sends what waits');
is(visits(), '/salle 112, /unknown 1, go.example/salle 3', '... visits of unknown codes, too');

# Killed in the middle of visits: it loses what it had not sent yet.
$frontend = Frontend->start(database => $connstr, clicks => 1);
my @visits;
for (my $end = time + 4; time < $end;)
{
	$frontend->get('/a');
	push @visits, time;
}
$frontend->signal('KILL');
my $killed = time;
$frontend->wait_for_end;
eventually { value(q{SELECT count(*) FROM pg_stat_activity WHERE application_name = 'shortenerd'}) == 0 };
my $kept = recorded() - 3606;
note(sprintf '%d of %d clicks lost', @visits - $kept, scalar @visits);
cmp_ok($kept, '<=', scalar @visits, 'a frontend that is killed counts no click twice');
cmp_ok($kept == @visits ? 0 : $killed - $visits[$kept], '<', 2, '... and loses those of its last moment, two seconds on the slowest of machines');
my $all = recorded();

# A buffer that is full; a role that may not record.
value('CREATE ROLE reader LOGIN; GRANT pg_read_all_data TO reader; GRANT EXECUTE ON FUNCTION shortener.notification_key() TO reader');
$frontend = Frontend->start(database => "$connstr user=reader", clicks => 1, flags => [ '--click-buffer', '1MB', '--shutdown-timeout', '1s' ]);
ok(eventually { $frontend->log =~ /error: cannot record clicks: permission denied/ }, 'a role that may not record clicks: the log says so');
my $client = $frontend->connect;
for (1 .. 20)
{
	$client->send(Frontend::Client::format_request('GET', '/a', Referer => 'https://from.example/' . 'x' x 1900) x 50);
	$client->head_statuses(50);
}
cmp_ok(metric('clicks_dropped_total'), '>', 300, 'what the buffer has no room for is dropped');
cmp_ok(metric('clicks_waiting'), '>', 300, '... the rest waits');
is($frontend->status('/a'), 302, '... visitors do not notice');
my $dropped = metric('clicks_dropped_total');
for (1 .. 60)
{
	$client->send(Frontend::Client::format_request('GET', '/salle') x 50);
	$client->response for 1 .. 50;
}
cmp_ok(metric('unknown_visits_dropped_total'), '>', 300, 'visits of unknown codes have a part of the buffer for themselves');
is(metric('clicks_dropped_total'), $dropped, '... and push no click out');
$frontend->stop;
like($frontend->log, qr/warning: \d+ clicks were not recorded/, 'what is lost at the end is logged');
like($frontend->log, qr/warning: \d+ visits of unknown codes were not recorded/, '... both');
value('GRANT EXECUTE ON FUNCTION shortener.record_clicks TO reader');
$frontend = Frontend->start(database => "$connstr user=reader", clicks => 1);
ok(eventually { $frontend->log =~ /error: cannot record clicks: permission denied for function shortener\.record_unknown_codes/ }, 'the log names the function that a role lacks');
$frontend->stop;

# Off.
$frontend = Frontend->start(database => $connstr);
$frontend->get($_) for ('/a', '/salle') x 10;
$frontend->stop;
is(recorded(), $all, '--clicks off records nothing');
is(visits(), '/salle 112, /unknown 1, go.example/salle 3', '... of neither kind');

$node->stop;
done_testing();
