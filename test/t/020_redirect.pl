# The HTTP contract, line by line, with real sockets: what visitors get, and how the program is configured.
use strict;
use warnings;

use Frontend;
use IO::Select;
use IO::Socket::UNIX;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = database('redirect');
sub value { return $node->safe_psql('postgres', $_[0]); }
sub link_to
{
	my ($alias, $status, $arguments) = @_;
	return value("SELECT short_code FROM shortener.create_link('https://to.example/$alias', alias => '$alias', redirect_status => $status"
		  . ($arguments ? ", $arguments)" : ')'));
}

my $frontend = Frontend->start(database => $node->connstr('postgres'), flags => [ '--log-level', 'debug' ]);

sub field { my ($response, $name) = @_; return join ', ', @{ $response->{fields}{$name} // [] }; }

# What the database did meanwhile: round trips for links.
sub round_trips { my ($code) = @_; return $frontend->growth($code)->{database_round_trips_total} // 0; }

# Redirects by status.
link_to("s$_", $_) for 301, 302, 307, 308;
my %cached = (301 => 'public, max-age=300', 302 => 'private, no-store', 307 => 'private, no-store', 308 => 'public, max-age=300');
for my $status (sort keys %cached)
{
	for my $method ('GET', 'HEAD')
	{
		for my $again ('', ' from the cache')
		{
			my $response = $frontend->request($method, "/s$status");
			is($response->{status}, $status, "$method of a $status link$again");
			is($response->{location}, "https://to.example/s$status", '... leads where it should');
			is(field($response, 'cache-control'), $cached{$status}, "... with Cache-Control: $cached{$status}");
			is(field($response, 'x-robots-tag'), 'noindex', '... is not for search engines');
			is(field($response, 'content-length'), '0', '... says that it has no body');
			like(field($response, 'date'), qr/^\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$/, '... has a date');
		}
	}
	is($frontend->location("/s$status/"), "https://to.example/s$status", 'one trailing slash does not matter');
	is($frontend->status("/s$status//"), 404, 'two do');
	is($frontend->location("/s$status?a=b&c=/d"), "https://to.example/s$status", 'a query is not forwarded');
	is($frontend->location("/s$status/?q"), "https://to.example/s$status", '... after a slash neither');
}
is($frontend->location("/$_"), 'https://to.example/s301', "a percent-encoded character is the character: $_") for '%73301', 's%33%30%31', '%73301/', 's30%31?%';
is($frontend->status("/$_"), 404, "... as long as it is one: $_") for 's301%2F', '%2Fs301', 's301%', 's30%3', 's301%3Fa', 's301%00';
is($frontend->status('/S301'), 404, 'codes are case-sensitive');

# max-age ends with the link.
link_to('soon', 301, q{expires_at => now() + interval '100 seconds'});
link_to('later', 308, q{expires_at => now() + interval '1 hour'});
my ($age) = field($frontend->get('/soon'), 'cache-control') =~ /^public, max-age=(\d+)$/;
cmp_ok($age, '<=', 100, 'max-age of a link that expires soon is not longer than its life');
cmp_ok($age, '>=', 60, '... nor much shorter');
sleep 1.1;
my ($later_age) = field($frontend->get('/soon'), 'cache-control') =~ /^public, max-age=(\d+)$/;
cmp_ok($later_age, '<', $age, '... and shrinks, also from the cache');
is(field($frontend->get('/later'), 'cache-control'), 'public, max-age=300', 'max-age of one that expires later is the usual');
for my $year (2290, 2400, 3000, 9999, 200_000)
{
	link_to("year$year", 301, "expires_at => make_timestamptz($year, 12, 31, 0, 0, 0)");
	is(field($frontend->get("/year$year"), 'cache-control'), 'public, max-age=300', "... of one that expires in $year, too");
}

# Methods.
for my $method ('POST', 'PUT', 'DELETE', 'PATCH', crow() ? () : ('OPTIONS', 'get'))
{
	for my $status (307, 308)
	{
		my $response = $frontend->request($method, "/s$status", body => 'a=1');
		is($response->{status}, $status, "$method of a $status link");
		is($response->{location}, "https://to.example/s$status", '... is forwarded the same way');
	}
	for my $status (301, 302)
	{
		my $response = $frontend->request($method, "/s$status", body => 'a=1');
		is($response->{status}, 405, "$method of a $status link is refused");
		is(field($response, 'allow'), 'GET, HEAD', '... with what is allowed');
		is($response->{location}, undef, '... and leads nowhere');
	}
}
is($frontend->request('POST', '/nobody')->{status}, 404, 'POST of an unknown code');

# Unknown and gone.
link_to($_, 302) for 'disabled', 'deleted', 'expired';
value("SELECT shortener.disable_link('disabled'), shortener.delete_link('deleted');
	UPDATE shortener.link SET expires_at = now() - interval '1 hour' WHERE short_code = 'expired'");
for ([ nobody => 404, 'not_found' ], [ disabled => 410, 'gone' ], [ deleted => 410, 'gone' ], [ expired => 410, 'gone' ])
{
	my ($code, $status, $error) = @$_;
	for my $accept (undef, 'text/html,application/xhtml+xml,*/*;q=0.8', '*/*')
	{
		my $page = $frontend->get("/$code", defined $accept ? (Accept => $accept) : ());
		is($page->{status}, $status, "/$code is $status");
		is(field($page, 'content-type'), 'text/html; charset=utf-8', '... with a page for a browser');
		like($page->{body}, qr/^<!doctype html>.*<small>$status /s, '... that says so');
		unlike($page->{body}, qr/<script|src=|href=/i, '... without script, and needs nothing else');
		like(field($page, 'content-security-policy'), qr/^default-src 'none'; style-src 'sha256-[^;]+'/, '... under a strict policy');
		is(field($page, 'x-content-type-options'), 'nosniff', '... of exactly this type');
		is(field($page, 'vary'), 'Accept', '... which depends on Accept');
		is(field($page, 'cache-control'), 'no-store', '... and is not kept');
	}
	my $json = $frontend->get("/$code", Accept => 'application/json');
	is($json->{status}, $status, "/$code as JSON");
	is(field($json, 'content-type'), 'application/json', '... has that type');
	is($json->{body}, qq({"status":$status,"error":"$error"}\n), '... and is one line');
	my $head = $frontend->request('HEAD', "/$code", Accept => 'application/json');
	is($head->{status}, $status, "HEAD of /$code");
	is(field($head, 'content-length'), length $json->{body}, '... with the length of the body');
}

# What cannot be a code is not asked about.
my $too_long = 'a' x 51;
my @impossible = ('/', '/a.b', '/a/b', '/%2e', '/../s302', '/s302%00', "/$too_long", '/s302;x', '/s302/x', '/wp-login.php', '/.env', '//', '/s302//', crow() ? () : '*');
is(round_trips(sub { is($frontend->status($_), 404, "$_ is 404") for @impossible }), 0, 'impossible paths do not reach the database');
is(round_trips(sub { is($frontend->status('/' . 'a' x 50), 404, 'the longest code') }), 1, 'a possible one does, once');
is(round_trips(sub { is($frontend->status('/' . 'a' x 50), 404, 'the longest code again') }), 0, '... and is remembered');

is(round_trips(sub {
	my $robots = $frontend->get('/robots.txt');
	is($robots->{status}, 200, '/robots.txt');
	is($robots->{body}, "User-agent: *\nAllow: /\n", '... lets crawlers see that redirects are not for them');
	is(field($robots, 'content-type'), 'text/plain; charset=utf-8', '... as plain text');
	my $icon = $frontend->get('/favicon.ico');
	is($icon->{status}, 204, '/favicon.ico');
	is($icon->{body}, '', '... is empty');
	is(field($icon, 'content-length'), '', '... and a 204 has no length');
	is($frontend->request('POST', '/robots.txt')->{status}, 405, 'POST of /robots.txt');
}), 0, 'both are answered without the database');

# The admin listener, and only that.
is($frontend->admin('/healthz')->{status}, 200, '/healthz');
is($frontend->admin('/readyz')->{status}, 200, '/readyz');
is($frontend->admin('/metrics')->{status}, 200, '/metrics');
is($frontend->admin('/s302')->{status}, 404, 'no links on the admin listener');
is($frontend->admin('/metrics', 'POST')->{status}, 405, 'nothing but GET and HEAD there');
is($frontend->status("/$_"), 404, "/$_ on the public listener is a code like any other") for 'healthz', 'readyz', 'metrics';
my $metrics = $frontend->metrics;
is($metrics->{listening}, 1, 'metrics say that changes are listened for');
is($metrics->{database_connections}, 2, '... that both threads have a database');
cmp_ok($metrics->{qq(requests_total{status="$_"})}, '>', 0, "... how many $_ there were") for 200, 204, 301, 302, 307, 308, 404, 405, 410;
is($metrics->{'request_duration_seconds_bucket{le="+Inf"}'}, $metrics->{request_duration_seconds_count}, '... with a histogram of latencies');
is($metrics->{'batch_codes_bucket{le="+Inf"}'}, $metrics->{batch_codes_count}, '... and of batches');
cmp_ok($metrics->{cache_misses_total}, '>', 0, '... misses');
cmp_ok($metrics->{qq(cache_hits_total{kind="$_"})}, '>', 0, "... hits: $_") for 'redirect', 'gone', 'unknown';
cmp_ok($metrics->{'cache_entries{part="links"}'}, '>', 0, '... entries');
cmp_ok($metrics->{'cache_bytes{part="links"}'}, '>', 0, '... and their bytes');
my $page = $frontend->admin('/metrics')->{body};
is(scalar(grep { !/^(# (HELP|TYPE) shortenerd_\w+ \S|shortenerd_\w+(\{\w+="[^"]*"\})? [0-9.]+$)/ } split /\n/, $page), 0, '... in the format of Prometheus');

# HEAD is no click.
is($frontend->growth(sub { $frontend->get('/s302') for 1 .. 3; $frontend->get('/nobody') })->{clicks_total}, 3, 'three GETs are three clicks');
is($frontend->growth(sub { $frontend->request('HEAD', '/s302') })->{clicks_total}, undef, 'HEAD is none');

# Tenants.
value(q{SELECT shortener.create_workspace('blue'), shortener.create_workspace('green');
	SELECT shortener.add_domain('blue.example', 'blue'), shortener.add_domain('bücher.example', 'green');
	SELECT shortener.create_link('https://to.example/blue', alias => 'shared', workspace => 'blue'),
		shortener.create_link('https://to.example/green', alias => 'shared', workspace => 'green'),
		shortener.create_link('https://to.example/default', alias => 'shared')});
for my $again ('', ' from the cache')
{
	is($frontend->location('/shared', Host => $_), 'https://to.example/blue', "Host: $_ is its workspace$again")
	  for 'blue.example', 'BLUE.Example', 'blue.example:8080', 'blue.example.', 'Blue.Example.:80';
	is($frontend->location('/shared', Host => 'xn--bcher-kva.example'), 'https://to.example/green', "so is a host in Punycode$again");
	is($frontend->location('/shared', Host => $_), 'https://to.example/default', "Host: $_ is nobody's$again")
	  for 'other.example', 'sub.blue.example', '127.0.0.1:80', '[::1]:80', 'localhost', '';
	is($frontend->location('http://blue.example/shared', Host => 'blue.example'), 'https://to.example/blue', "absolute form$again") unless crow();
	is($frontend->get('/shared', Host => undef, version => '1.0')->{location}, 'https://to.example/default', "HTTP/1.0 without Host$again");
}
is($frontend->status('/s302', Host => 'blue.example'), 404, 'a workspace has no links but its own');

# Page texts of a workspace.
value(q{SELECT shortener.set_page_texts('Nothing <b>here</b> & "there"', E'It''s <script>alert(1)</script> gone', 'blue');
	SELECT shortener.create_link('https://to.example/x', alias => 'past', workspace => 'blue'), shortener.delete_link('past', 'blue')});
ok(eventually { $frontend->get('/none', Host => 'blue.example')->{body} =~ /Nothing &lt;b&gt;here&lt;\/b&gt; &amp; &quot;there&quot;/ },
	'a workspace says its own 404, escaped');
like($frontend->get('/past', Host => 'blue.example')->{body}, qr/It&#39;s &lt;script&gt;alert\(1\)&lt;\/script&gt; gone/, 'and its own 410');
unlike($frontend->get('/none', Host => 'xn--bcher-kva.example')->{body}, qr/Nothing/, 'another one does not');
is($frontend->get('/none', Host => 'blue.example', Accept => 'application/json')->{body}, qq({"status":404,"error":"not_found"}\n), 'JSON stays JSON');

# Connections.
my $client = $frontend->connect;
is($client->request('GET', '/s302')->{status}, 302, 'a first request on a connection');
is($client->request(crow() ? 'GET' : 'HEAD', '/nobody')->{status}, 404, '... HEAD of a page on the same');
is($client->request('POST', '/s308', body => 'x' x 1000)->{status}, 308, '... one with a body');
is($client->request('GET', '/favicon.ico')->{status}, 204, '... one without an answer body');
my $last = $client->request('GET', '/s301', Connection => 'close');
is($last->{status}, 301, '... and the last');
is(field($last, 'connection'), 'close', '... which is announced') unless crow();
ok($client->ends(5), '... after which it is closed');

$client = $frontend->connect;
my $old = $client->request('GET', '/s302', version => '1.0');
is($old->{status}, 302, 'HTTP/1.0');
ok($client->ends(5), '... closes');
$client = $frontend->connect;
$old = $client->request('GET', '/s302', version => '1.0', Connection => 'keep-alive');
is(lc field($old, 'connection'), 'keep-alive', 'HTTP/1.0 that asks to go on is told so');
is($client->request('GET', '/s301', version => '1.0')->{status}, 301, '... and goes on');

# Pipelining: all at once, cached and not, with and without bodies, answered in order.
value(q{SELECT count(shortener.create_link('https://to.example/p' || i, alias => 'p' || i)) FROM generate_series(1, 100) i});
my @asked = map { ([ 'GET', "/p$_", "https://to.example/p$_" ], [ 'POST', '/s307', 'https://to.example/s307' ], [ 'HEAD', "/p$_", "https://to.example/p$_" ]) } 1 .. 100;
$client = $frontend->connect;
if (!crow()) # 1.2 does not know pipelining
{
	$client->send(join '', map { Frontend::Client::format_request($_->[0], $_->[1], $_->[0] eq 'POST' ? (body => 'abc') : ()) } @asked);
	is_deeply([ map { $client->response($_->[0])->{location} } @asked ], [ map { $_->[2] } @asked ], '300 pipelined requests, answered in order');
	is($client->request('GET', '/s302')->{status}, 302, '... and the connection goes on');
	$client->send("\r\n" . Frontend::Client::format_request('GET', '/s302'));
	is($client->response->{status}, 302, 'an empty line before a request is forgiven');
	$client->send("\r\n" . Frontend::Client::format_request('POST', '/s307', body => 'abc'));
	is($client->response->{status}, 307, '... before one with a body, too');
}

# Expect: 100-continue.
$client->send("POST /s307 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
ok($client->more(time + 10), 'somebody who asks before sending a body is answered');
$client->send('abc');
is($client->response('POST')->{status}, 307, '... and served');

# Expiry, without the database: the cache knows.
$frontend->hear(sub { link_to('short', 302, q{expires_at => now() + interval '2 seconds'}) });
is($frontend->status('/short'), 302, 'a link that lives for two seconds');
sleep 2.2;
is(round_trips(sub { is($frontend->status('/short'), 410, 'is gone after them') for 1 .. 3 }), 0, '... without asking the database');
is($frontend->status('/deleted'), 410, 'a deleted link is gone');
is(round_trips(sub { is($frontend->status('/deleted'), 410, '... and stays gone') }), 0, '... without asking again');
my $revived = value(q{SELECT short_code FROM shortener.create_link('https://to.example/again', expires_at => now() + interval '1 second')});
is($frontend->status("/$revived"), 302, 'a link that lives for a second');
sleep 1.2;
is($frontend->status("/$revived"), 410, 'is gone after it');
is(value(q{SELECT shortener.shorten('https://to.example/again')}), $revived, 'and revived');
ok(eventually { $frontend->status("/$revived") == 302 }, '... which the cache learns');

# The log: no URL in it, one line for each click.
my $id = value(q{SELECT id FROM shortener.link WHERE short_code = 's302'});
like($frontend->log, qr/^\S+ debug: redirect link=$id client=127\.0\.0\.1$/m, 'debug level logs a click');
unlike($frontend->log, qr/to\.example/, 'and never where it went');
$frontend->stop;

# A default workspace for hosts that are nobody's.
$frontend = Frontend->start(database => $node->connstr('postgres'), flags => [ '--default-workspace', 'blue' ]);
is($frontend->location('/shared', Host => 'other.example'), 'https://to.example/blue', '--default-workspace');
is($frontend->location('/shared', Host => 'xn--bcher-kva.example'), 'https://to.example/green', '... for unknown hosts only');
unlike($frontend->log, qr/redirect link/, 'clicks are not logged at the usual level');
$frontend->stop;
for my $from ([ 'a connection string' => " options='-c log_min_duration_statement=0'", {} ], [ PGOPTIONS => '', { PGOPTIONS => '-c log_min_duration_statement=0' } ])
{
	my ($name, $options, $environment) = @$from;
	my $logged = -s $node->logfile;
	$frontend = Frontend->start(database => $node->connstr('postgres') . $options, environment => $environment, flags => [ '--default-workspace', 'blue' ]);
	is($frontend->location('/shared', Host => 'other.example'), 'https://to.example/blue', "--default-workspace beside the options of $name");
	like(substr(slurp_file($node->logfile), $logged), qr/duration: .*resolve_many/, '... which hold, too');
	$frontend->stop;
}

# Who the visitor is.
sub client_seen
{
	my @fields = @_;
	my $lines = () = $frontend->log =~ /client=/g;
	$frontend->get('/shared', @fields);
	my @clients = $frontend->log =~ /client=(\S+)$/mg;
	return @clients == $lines + 1 ? $clients[-1] : scalar @clients;
}
$frontend = Frontend->start(database => $node->connstr('postgres'), flags => [ '--log-level', 'debug', '--trusted-proxy', '10.0.0.0/8' ]);
is(client_seen('X-Forwarded-For' => '203.0.113.9'), '127.0.0.1', 'X-Forwarded-For of a stranger does not count');
is(client_seen('X-Real-IP' => '203.0.113.9', Forwarded => 'for=203.0.113.9'), '127.0.0.1', '... nor do its relatives');
$frontend->stop;
$frontend = Frontend->start(database => $node->connstr('postgres'),
	flags => [ '--log-level', 'debug', '--trusted-proxy', '10.0.0.0/8', '--trusted-proxy', '127.0.0.0/8' ]);
is(client_seen('X-Forwarded-For' => '203.0.113.9'), '203.0.113.9', 'that of a trusted proxy does');
is(client_seen('X-Forwarded-For' => '6.6.6.6, 203.0.113.9'), '203.0.113.9', '... as far as the proxy wrote it');
is(client_seen('X-Forwarded-For' => '6.6.6.6, 203.0.113.9, 10.1.2.3'), '203.0.113.9', '... through two of them');
is(client_seen('X-Forwarded-For' => '6.6.6.6', 'x-forwarded-for' => '203.0.113.9'), '203.0.113.9', '... in two lines as in one') unless crow();
is(client_seen('X-Forwarded-For' => '203.0.113.9', 'X-Forwarded-For' => '10.1.2.3'), '203.0.113.9', '... also if the last line is a proxy') unless crow();
is(client_seen('X-Forwarded-For' => '"><script>'), '127.0.0.1', '... if it is an address');
is(client_seen('X-Forwarded-For' => '2001:db8::9'), '2001:db8::9', '... of whatever kind');
is(client_seen(), '127.0.0.1', '... and if there is one');
$frontend->stop;

# Configuration: by flag, environment and file, in this order.
my $file = PostgreSQL::Test::Utils::tempdir() . '/shortenerd.conf';
append_to_file($file, "# links\ndatabase = " . $node->connstr('postgres') . "\ndefault-workspace = green\nlog-level = debug\n");
$frontend = Frontend->start(flags => [ '--config', $file ]);
is($frontend->location('/shared'), 'https://to.example/green', 'a file configures');
like($frontend->log, qr/debug: redirect/, '... all of it');
$frontend->stop;
$frontend = Frontend->start(environment => { SHORTENERD_CONFIG => $file, SHORTENERD_DEFAULT_WORKSPACE => 'blue' });
is($frontend->location('/shared'), 'https://to.example/blue', 'the environment wins over the file');
$frontend->stop;
$frontend = Frontend->start(
	environment => { SHORTENERD_CONFIG => $file, SHORTENERD_DEFAULT_WORKSPACE => 'blue' }, flags => [ '--default-workspace', 'default' ]);
is($frontend->location('/shared'), 'https://to.example/default', 'a flag wins over both');
$frontend->stop;

my ($control) = slurp_file('shortener.control') =~ /^default_version *= *'(.*)'/m;
is_deeply([ run_shortenerd({}, '--version') ], [ 0, "shortenerd $control\n", '' ], '--version');
my ($status, $out, $err) = run_shortenerd({}, '--help');
is_deeply([ run_shortenerd({}, '-h') ], [ 0, $out, '' ], '-h');
is($status, 0, '--help');
like($out, qr/--$_\b/, "... tells of --$_")
  for qw(database primary default-workspace listen admin-listen threads clicks click-buffer cache-size cache-ttl database-timeout standby-delay max-connections
  max-header-size max-headers max-target-size max-body-size idle-timeout request-timeout write-timeout shutdown-timeout trusted-proxy log-level config);
is(scalar(grep { length > 110 } split /\n/, $out), 0, '... in lines that a person can read');
append_to_file($file, "cache-sise = 1MB\n");
for (
	[ qr/shortenerd\.conf: .*cache-sise/, { SHORTENERD_CONFIG => $file } ],
	[ qr/cannot read the configuration file/, { SHORTENERD_CONFIG => '/nonexistent' } ],
	[ qr/cannot read the configuration file/, { SHORTENERD_CONFIG => '/tmp' } ],
	[ qr/SHORTENERD_CACHE_SISE/, { SHORTENERD_CACHE_SISE => '1MB' } ],
	[ qr/--nonsense/, {}, '--nonsense' ],
	[ qr/--cache-size: "many" is not a size/, {}, '--cache-size', 'many' ],
	[ qr/--cache-size: "many" is not a size/, { SHORTENERD_CACHE_SIZE => 'many' } ],
	[ qr/--cache-size: "1 MB" is not .* the units are kB, MB and GB/, {}, '--cache-size', '1 MB' ],
	[ qr/--idle-timeout: "5m" is not .* the units are ms, s, min and h/, {}, '--idle-timeout', '5m' ],
	[ qr/--listen: cannot find the address of "no-such-host\.invalid"/, {}, '--listen', 'no-such-host.invalid:8080' ],
	[ qr/--clicks: "maybe" is not on or off/, {}, '--clicks', 'maybe' ],
	[ qr/--idle-timeout: "0" is not a time/, {}, '--idle-timeout', '0' ],
	[ qr/--listen: "here" is not an address/, {}, '--listen', 'here' ],
	[ qr/--trusted-proxy: "10.0.0.0\/99" is not/, {}, '--trusted-proxy', '10.0.0.0/99' ],
	[ qr/--log-level: "loud" is not one of/, {}, '--log-level', 'loud' ],
	[ qr/--database: not a libpq connection string/, {}, '--database', 'host=a password=hunter2 hunter2' ],
	[ qr/--primary: not a libpq connection string/, {}, '--primary', 'postgresql://a:hunter2@[b' ])
{
	my ($complaint, $environment, @flags) = @$_;
	($status, $out, $err) = run_shortenerd($environment, '--listen', '127.0.0.1:0', '--admin-listen', '127.0.0.1:0', @flags);
	is($status, 1, 'a mistake ends it at once');
	like($err, $complaint, '... which it names');
	unlike($err, qr/serving|hunter2/, '... before it serves, and without secrets');
}

# Two listeners, no admin; an address that is taken.
$frontend = Frontend->start(database => $node->connstr('postgres'), flags => [ '--listen', '127.0.0.2:0' ]);
my ($second) = $frontend->log =~ /serving links on http:\/\/127\.0\.0\.2:(\d+)/;
ok($second, 'it listens on several addresses');
is(IO::Socket::INET->new(PeerAddr => '127.0.0.2', PeerPort => $second) ? 'open' : $!, 'open', '... on the second, too');
($status, $out, $err) = run_shortenerd({}, '--listen', "127.0.0.1:$frontend->{port}", '--admin-listen', 'off');
is($status, 1, 'an address that is taken ends it');
like($err, qr/error: cannot listen on 127\.0\.0\.1:$frontend->{port}: Address already in use/, '... and says which');
$frontend->stop;
for my $other ('--listen', '--admin-listen')
{
	($status, $out, $err) = run_shortenerd({}, '--listen', "127.0.0.1:$second", $other, "127.0.0.1:$second");
	is($status, 1, "the same address again with $other ends it");
	like($err, qr/error: cannot listen on 127\.0\.0\.1:$second: Address already in use/, '... and says which');
}

# A name to listen on; systemd, and its signals.
my $notify = IO::Socket::UNIX->new(Type => IO::Socket::UNIX::SOCK_DGRAM(), Local => PostgreSQL::Test::Utils::tempdir_short() . '/notify') or die $!;
sub notified { my $text; my $patience = 30; return IO::Select->new($notify)->can_read($patience) && defined $notify->recv($text, 100) ? $text : undef; }
$frontend = Frontend->start(database => $node->connstr('postgres'), flags => [ '--listen', 'localhost:0' ], environment => { NOTIFY_SOCKET => $notify->hostpath });
is(notified(), 'READY=1', 'systemd hears that it serves');
cmp_ok(scalar(() = $frontend->log =~ /serving links on/g), '>=', 2, '--listen takes a name');
$frontend->signal('HUP');
is($frontend->status('/s302'), 302, 'SIGHUP does not end it');
$frontend->stop;
is(notified(), 'STOPPING=1', '... and that it stops');

# Ready means able to answer.
value('CREATE DATABASE empty');
$frontend = Frontend->start(database => $node->connstr('empty'), ready => 0);
ok(eventually { $frontend->log =~ /error: cannot resolve codes: schema "shortener" does not exist; run CREATE EXTENSION shortener CASCADE and CALL shortener\.install\(\)/ }, 'a database without the extension is logged');
is($frontend->admin('/healthz')->{status}, 200, '... the program is healthy');
is($frontend->admin('/readyz')->{status}, 503, '... but not ready');
is($frontend->status('/s302'), 503, '... and says that it cannot answer');
$node->safe_psql('empty', 'CREATE EXTENSION shortener CASCADE');
ok(eventually { $frontend->log =~ /error: cannot resolve codes: .*install/ }, '... nor with the extension, but without its tables');
is($frontend->admin('/readyz')->{status}, 503, '... is it ready');
sleep 3;
is(scalar(() = $frontend->log =~ /cannot resolve codes: .*not installed.*/g), 2, '... which is said once by each thread, not at each attempt');
$node->safe_psql('empty', q{CALL shortener.install(); CREATE ROLE visitor LOGIN});
ok($frontend->until_ready, 'with them it is');
is($frontend->status('/s302'), 404, '... and answers');
$node->safe_psql('empty', 'ALTER SCHEMA shortener RENAME TO elsewhere');
is($frontend->status('/s301'), 503, 'a database that can no longer answer');
ok(eventually { $frontend->admin('/readyz')->{status} == 503 }, '... makes it not ready');
$node->safe_psql('empty', 'ALTER SCHEMA elsewhere RENAME TO shortener');
ok($frontend->until_ready, '... until it can again');
$frontend->stop;
$frontend = Frontend->start(database => $node->connstr('postgres') . ' user=visitor', ready => 0);
ok(eventually { $frontend->log =~ /error: cannot resolve codes: permission denied for .*; grant .* shortener\.grant_access\('ROLE', 'redirector'\)/ }, 'a role without privileges is logged');
is($frontend->admin('/readyz')->{status}, 503, '... and not ready');
$frontend->stop;

$node->stop;
done_testing();
