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

# The database is away; connections are lost in the middle.
$node->stop('immediate');
$frontend->get('/a') for 1 .. 50;
is(metric('clicks_waiting'), 50, 'without a database clicks wait');
sleep 3;
$frontend->get('/a') for 1 .. 50;
$node->start;
ok(until_recorded(3106), '... and are recorded when it is back');
for my $round (1 .. 20)
{
	$frontend->get('/a') for 1 .. 20;
	value(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'shortenerd' AND query LIKE '%record_clicks%'});
}
ok(until_recorded(3506), 'lost connections cost no click');
sleep 1;
is(recorded(), 3506, '... and count none twice');

# The end.
$frontend->get('/a') for 1 .. 100;
$frontend->stop;
is(recorded(), 3606, 'SIGTERM sends what waits');

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
$frontend->stop;
like($frontend->log, qr/warning: \d+ clicks were not recorded/, 'what is lost at the end is logged');

# Off.
$frontend = Frontend->start(database => $connstr);
$frontend->get('/a') for 1 .. 10;
$frontend->stop;
is(recorded(), 3606, '--clicks off records nothing');

$node->stop;
done_testing();
