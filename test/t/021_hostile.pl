# What strangers send: ambiguous, oversized, slow and endless requests, forged fields, URLs made to become headers.
# Each is answered as the contract says and costs nobody else anything.
use strict;
use warnings;
use utf8;

use Frontend;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $node = database('hostile');
sub value { return $node->safe_psql('postgres', $_[0]); }
value(q{SELECT shortener.create_link('https://to.example/good', alias => 'good'),
	shortener.create_link('https://to.example/post', alias => 'post', redirect_status => 307)});

my $frontend = Frontend->start(
	database => $node->connstr('postgres'),
	flags => [ '--request-timeout', '2s', '--idle-timeout', '3s', '--write-timeout', '2s', '--cache-size', '8MB', '--log-level', 'debug' ]);
sub format_request { return Frontend::Client::format_request(@_); }
my $good = format_request('GET', '/good');

# Sends the bytes and then, on the same connection, a good request; gives the first status and whether the connection
# was closed after it.
sub refusal
{
	my ($bytes) = @_;
	my $client = $frontend->connect;
	$client->send($bytes . $good);
	my $response = $client->response;
	return ($response->{status} // join ' ', %$response) . ($client->ends(10) ? ' closed' : ' goes on');
}

# Ambiguous: what two parsers could read differently.
my $host = "Host: a\r\n";
my $get = "GET /good HTTP/1.1\r\n";
my $post = "POST /post HTTP/1.1\r\n$host";
for (
	[ 'Content-Length with Transfer-Encoding', "${post}Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" ],
	[ 'Transfer-Encoding with Content-Length', "${post}Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n" ],
	[ 'two Content-Lengths', "${post}Content-Length: 3\r\nContent-Length: 5\r\n\r\nabcde" ],
	[ 'two equal Content-Lengths', "${post}Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc" ],
	[ 'a list of Content-Lengths', "${post}Content-Length: 3, 3\r\n\r\nabc" ],
	[ 'Transfer-Encoding: xchunked', "${post}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" ],
	[ 'Transfer-Encoding: chunked, identity', "${post}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" ],
	[ 'Transfer-Encoding: gzip, chunked', "${post}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" ],
	[ 'two Transfer-Encodings', "${post}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" ],
	[ 'Transfer-Encoding behind a vertical tab', "${post}Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n" ],
	[ 'Transfer-Encoding in HTTP/1.0', "POST /post HTTP/1.0\r\n${host}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" ],
	(map { [ "Content-Length: $_", "${post}Content-Length: $_\r\n\r\nabcde" ] } '+5', '-5', '0x5', '5 ,', '5.0', '', 'five', '99999999999999999999', "5\x0b"),
	[ 'bare LF after the request line', "GET /good HTTP/1.1\n$host\r\n" ],
	[ 'bare LF after a field', "${get}Host: a\n\r\n" ],
	[ 'bare LF at the end', "$get$host\n" ],
	[ 'bare LF alone', "GET /good HTTP/1.1\nHost: a\n\n" ],
	[ 'bare CR in a field', "$get${host}X: a\rb\r\n\r\n" ],
	[ 'bare CR in the request line', "GET /good\r HTTP/1.1\r\n$host\r\n" ],
	[ 'NUL in a field', "$get${host}X: a\0b\r\n\r\n" ],
	[ 'space before a colon', "${get}Host : a\r\n\r\n" ],
	[ 'space before the colon of Content-Length', "${post}Content-Length : 3\r\n\r\nabc" ],
	[ 'folded field', "$get${host}X: a\r\n b\r\n\r\n" ],
	[ 'field folded with a tab', "$get${host}X: a\r\n\tb\r\n\r\n" ],
	[ 'space before the first field', "$get $host\r\n" ],
	[ 'field without a name', "$get${host}: a\r\n\r\n" ],
	[ 'field without a colon', "$get${host}nonsense\r\n\r\n" ],
	[ 'field name that is none', "$get${host}a(b): c\r\n\r\n" ],
	[ 'no Host', "$get\r\n" ],
	[ 'two Hosts', "$get${host}Host: b\r\n\r\n" ],
	[ 'two equal Hosts', "$get$host$host\r\n" ],
	(map { [ "Host: $_", "${get}Host: $_\r\n\r\n" ] } 'a b', 'a/b', 'u@a', 'a:b', 'a:80:80', '[::1', 'a,b', 'a"b', "\xc3\xa4", 'a' x 300),
	[ 'an absolute form that disagrees with Host', "GET http://b/good HTTP/1.1\r\n$host\r\n" ],
	[ 'an absolute form with credentials', "GET http://u:p\@a/good HTTP/1.1\r\n$host\r\n" ],
	[ 'an absolute form of another scheme', "GET ftp://a/good HTTP/1.1\r\n$host\r\n" ],
	[ 'CONNECT', "CONNECT a:443 HTTP/1.1\r\n$host\r\n" ],
	[ 'no version', "GET /good\r\n" ],
	[ 'HTTP/2.0', "GET /good HTTP/2.0\r\n$host\r\n" ],
	[ 'HTTP/1.2', "GET /good HTTP/1.2\r\n$host\r\n" ],
	[ 'the preface of HTTP/2', "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" ],
	[ 'http/1.1', "GET /good http/1.1\r\n$host\r\n" ],
	[ 'two spaces', "GET  /good HTTP/1.1\r\n$host\r\n" ],
	[ 'space in the target', "GET /go od HTTP/1.1\r\n$host\r\n" ],
	[ 'tab for space', "GET\t/good\tHTTP/1.1\r\n$host\r\n" ],
	[ 'a target beyond ASCII', "GET /g\xc3\xb6d HTTP/1.1\r\n$host\r\n" ],
	[ 'a method that is none', "G(T /good HTTP/1.1\r\n$host\r\n" ],
	[ 'a TLS hello', "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n" ],
	[ 'a chunk with a length that is none', "${post}Transfer-Encoding: chunked\r\n\r\nxyz\r\n\r\n" ],
	[ 'a chunk with a negative length', "${post}Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n" ],
	[ 'a chunk longer than it says', "${post}Transfer-Encoding: chunked\r\n\r\n3\r\nabcdef\r\n0\r\n\r\n" ],
	[ 'a chunk that ends with a bare LF', "${post}Transfer-Encoding: chunked\r\n\r\n3\nabc\n0\n\n" ])
{
	my ($name, $bytes) = @$_;
	is(refusal($bytes), '400 closed', "$name: 400");
}

{
	my $client = $frontend->connect;
	$client->send("HEAD /good HTTP/1.1\r\n${host}Host: b\r\n\r\n");
	is($client->response('HEAD')->{status}, 400, 'a refused HEAD: 400');
	ok($client->ends(10), '... without a body');
}

# Oversized.
is(refusal("$get${host}X: " . 'a' x 1_000_000 . "\r\n\r\n"), '431 closed', 'a megabyte in a field: 431');
is(refusal("$get$host" . join('', map { "X-$_: " . 'a' x 1000 . "\r\n" } 1 .. 1000) . "\r\n"), '431 closed', 'a megabyte of fields: 431');
is(refusal("$get$host" . join('', map { "X-$_: a\r\n" } 1 .. 1000) . "\r\n"), '431 closed', '1,000 fields: 431');
is(refusal("$get$host" . "X: a\r\n" x 100 . "\r\n"), '431 closed', '101 fields: 431');
is($frontend->get('/good', map { ("X-$_" => 'a') } 1 .. 99)->{status}, 302, '100 fields are served');
is(refusal('GET /' . 'a' x 1_000_000 . " HTTP/1.1\r\n$host\r\n"), '414 closed', 'a megabyte of target: 414');
is(refusal('GET /good?' . 'a' x 4096 . " HTTP/1.1\r\n$host\r\n"), '414 closed', 'a target over 4 kB: 414');
is($frontend->status('/good?' . 'a' x 4000), 302, 'one below is served');
is(refusal("${post}Content-Length: 65537\r\n\r\n" . 'a' x 65537), '413 closed', 'a body over 64 kB: 413');
is(refusal("${post}Content-Length: 999999999999\r\n\r\n"), '413 closed', 'a body that would be huge: 413 at once');
is(refusal("${post}Content-Length: 999999999999\r\nExpect: 100-continue\r\n\r\n"), '413 closed', '... before it is sent');
is(refusal("${post}Transfer-Encoding: chunked\r\n\r\n" . ("1000\r\n" . 'a' x 4096 . "\r\n") x 17 . "0\r\n\r\n"), '413 closed', 'chunks over 64 kB: 413');
is(refusal("${post}Transfer-Encoding: chunked\r\n\r\n1;" . 'x' x 1_000_000), '400 closed', 'an endless chunk extension: 400');

# What is allowed: bodies are read and forgotten, and do not become requests.
my $inner = format_request('GET', '/smuggled');
for (
	[ 'a body of a request', format_request('POST', '/post', body => $inner) ],
	[ 'one of 64 kB', format_request('POST', '/post', body => 'a' x 65536) ],
	[ 'a GET with a body', format_request('GET', '/post', body => $inner) ],
	[ 'chunks', "${post}Transfer-Encoding: chunked\r\n\r\n" . sprintf("%x", length $inner) . "\r\n$inner\r\n3;x=y\r\nabc\r\n0\r\nTrailer: x\r\n\r\n" ],
	[ 'no chunk', "${post}transfer-encoding:\tChunked\r\n\r\n0\r\n\r\n" ])
{
	my ($name, $bytes) = @$_;
	my $client = $frontend->connect;
	$client->send($bytes . $good);
	is($client->response->{status}, 307, "$name is served");
	is($client->response->{location}, 'https://to.example/good', '... and what follows it is the next request');
}
# The same, a few bytes at a time.
my $client = $frontend->connect;
for my $part ((format_request('POST', '/post', body => $inner) . $good) =~ /(.{1,17})/gs)
{
	$client->send($part);
	sleep 0.002;
}
is(join(' ', map { $client->response->{status} } 1, 2), '307 302', 'a request in many small pieces');

# 1,000 pipelined requests with an error in the middle.
$client = $frontend->connect;
$client->send(join '', $good x 500, "GET /good HTTP/1.1\r\n\r\n", $good x 499);
my %statuses;
$statuses{ $client->response->{status} // 'none' }++ for 1 .. 501;
is_deeply(\%statuses, { 302 => 500, 400 => 1 }, '500 requests before an error are answered, the error too');
ok($client->ends(10), '... and nothing after it');

# Slow: a byte a second, with a request timeout of two seconds.
my ($slow_head, $slow_body, $slow_first, $idle, $idle_again) = map { $frontend->connect } 1 .. 5;
$slow_head->send('GET /good HT');
$slow_body->send("${post}Content-Length: 1000\r\n\r\nabc");
$slow_first->send('G');
$idle_again->send($good);
is($idle_again->response->{status}, 302, 'a connection on which nothing more is asked');
my $begin = time;
my %ended;
while (time - $begin < 12 && keys %ended < 5)
{
	my %clients = ('slow head' => $slow_head, 'slow body' => $slow_body, 'a first byte' => $slow_first, 'idle' => $idle, 'idle again' => $idle_again);
	for my $name (keys %clients)
	{
		next if $ended{$name};
		$clients{$name}->send('a') if $name =~ /^slow/;
		$clients{$name}->more(time + 0.01);
		$ended{$name} = time - $begin if $clients{$name}{ended} || $clients{$name}{buffer} ne '';
	}
	sleep 0.9;
}
for my $name ('slow head', 'slow body', 'a first byte')
{
	ok(defined $ended{$name}, "$name: not waited for");
	cmp_ok($ended{$name} // 99, '>', 1, '... nor cut off at once');
}
is($slow_head->response->{status}, 408, 'a head of a byte a second: 408');
is($slow_body->response->{status}, 408, 'a body of a byte a second: 408');
is($slow_first->response->{status}, 408, 'one byte and no more: 408');
ok(defined $ended{$_} && $ended{$_} > 2, "a connection that is $_ is closed after the idle timeout") for 'idle', 'idle again';
is($_->{buffer}, '', '... without a word') for $idle, $idle_again;

# A client that asks for much and takes nothing is closed; the others are served meanwhile.
my $reader = $frontend->connect;
setsockopt $reader->{socket}, Socket::SOL_SOCKET(), Socket::SO_RCVBUF(), 4096;
{
	# 20,000 pages are more than the buffers of both sides hold.
	local $SIG{PIPE} = 'IGNORE';
	my $flood = format_request('GET', '/nobody', Accept => 'text/html') x 20_000;
	my $end = time + 20;
	my $closed = 0;
	while (!$closed && time < $end)
	{
		my $sent = syswrite $reader->{socket}, $flood;
		if (defined $sent) { substr $flood, 0, $sent, '' }
		elsif (!$!{EAGAIN}) { $closed = 1 }
		sleep 0.05 if !defined $sent || length $flood < 1000;
		$flood = $good if $flood eq '';
	}
	ok($closed, 'a client that takes no answers is closed after the write timeout');
	cmp_ok($frontend->resident, '<', 300_000, '... and has not filled the memory');
}
is($frontend->status('/good'), 302, '... and others are served');

# Fields that are forged, and never come back.
for my $field ([ Referer => '"><script>alert(1)</script>' ], [ 'User-Agent' => "<script>\xff" ], [ 'X-Forwarded-Host' => 'evil.example' ],
	[ 'X-Forwarded-Proto' => 'javascript' ], [ 'X-Original-URL' => '/smuggled' ], [ 'X-Forwarded-For' => "'; DROP TABLE link; --" ])
{
	my $response = $frontend->get('/good', @$field);
	is($response->{location}, 'https://to.example/good', "$field->[0]: the link is served");
	my $page = $frontend->get('/nobody', @$field);
	is($page->{status}, 404, '... a page, too');
	unlike($page->{body} . join(' ', map { @$_ } values %{ $page->{fields} }), qr/script>|evil|smuggled|DROP/, '... and nothing of it comes back');
}
unlike($frontend->get('/%3Cscript%3E?"><script>')->{body}, qr/script/, 'a page says nothing of the path or query');
is($frontend->status('/metrics'), 404, '/metrics on the public listener is a code that does not exist');
my $seen = $frontend->log;
unlike($seen, qr/script|DROP|evil/, 'nothing of it is in the log');
is(scalar(grep { !/^\S+Z (error|warning|info|debug): \S/ } split /\n/, $seen), 0, '... where every line is one');

# URLs: what is stored is what is served, byte for byte, and no URL becomes a header.
my @urls = (
	"https://e.example/a\r\nSet-Cookie: x=y", "https://e.example/%0d%0aSet-Cookie:%20x=y", "https://e.example/a\tb", 'https://e.example/a b',
	'https://e.example/"><script>', 'http://evil\\@good.example/', 'http:/\\evil.example', 'http://0x7f.1/', 'http://2130706433/', 'http://0177.0.0.1/',
	'http://127.1/', 'http://[::ffff:7f00:1]/', 'http://[fe80::1%25eth0]/', 'http://аpple.com/', 'http://xn--/', 'http://ｅxample．com/',
	'https://good@evil.example/', 'https://good:pass@evil.example/', 'javascript:alert(1)', 'data:text/html,x', 'file:///etc/passwd', "JaVa\tScript:alert(1)",
	'//evil.example', 'https://e.example/%zz', 'https://e.example/' . "\x{e4}", 'https://e.example/' . "\x{1f600}", 'https://e.example/#' . "\x{e4}",
	'https://e.example/' . 'a' x (2048 - 18), 'https://e.example/' . 'a' x (2049 - 18), 'https://e.example/?a=1&a=%2f&utm_source=x#frag', 'https://e.example/%00',
	'https://e.example:443/', 'https://E.EXAMPLE/Path');
my ($served, $refused) = (0, 0);
for my $url (@urls)
{
	(my $quoted = $url) =~ s/'/''/g;
	$quoted =~ s/\\/\\\\/g;
	utf8::encode($quoted);
	(my $name = substr $url, 0, 50) =~ s/([^ -~])/sprintf '\\x{%x}', ord $1/ge;
	my ($status, $out, $err) = $node->psql('postgres', "SELECT short_code FROM shortener.create_link(E'$quoted', reuse => false)");
	if ($status)
	{
		$refused++;
		like($err, qr/ERROR:  URL ".*" \S+ .*/s, "$name is refused with a reason");
		next;
	}
	$served++;
	my $stored = value("SELECT original_url FROM shortener.link WHERE short_code = '$out'");
	for my $again ('', ' from the cache')
	{
		my $response = $frontend->get("/$out");
		is($response->{status}, 302, "$name is served$again");
		is($response->{location}, $stored, '... as it is stored');
		like($response->{location}, qr/^https?:[!-~]+$/, '... which is a URL of printable ASCII');
		is(scalar @{ $response->{fields}{location} }, 1, '... in one field');
		is_deeply([ sort keys %{ $response->{fields} } ], [qw(cache-control content-length date location x-robots-tag)], '... beside the usual fields');
	}
}
cmp_ok($served, '>=', 10, "$served URLs were served");
cmp_ok($refused, '>=', 10, "$refused were refused");
# A URL that the checks would never let in, put there by force: no header comes of it.
value(q{ALTER TABLE shortener.link DROP CONSTRAINT link_original_url_check; SET session_replication_role = replica;
	UPDATE shortener.link SET original_url = E'https://e.example/\r\nSet-Cookie: x=y' WHERE short_code = 'post'});
is($frontend->request('POST', '/post')->{status}, 307, 'the answer from before is cached');
value(q{SELECT shortener.update_link('post', redirect_status => 302)});
ok(eventually { $frontend->status('/post') == 503 }, 'a broken URL is no answer');
is($frontend->get('/post')->{fields}{'set-cookie'}, undef, '... and no header');

# 200,000 random codes: memory is bounded, and real codes stay in the cache.
value(q{SELECT count(*) FROM shortener.shorten_many((SELECT array_agg('https://real.example/' || i) FROM generate_series(1, 1000) i))});
my @real = split /\n/, value(q{SELECT short_code FROM shortener.link WHERE original_url LIKE 'https://real.example/%'});
sub ask_all { return $frontend->many(50, map { "HEAD /$_ HTTP/1.1\r\nHost: links.example\r\n\r\n" } @_); }
is_deeply(ask_all(@real), { 302 => 1000 }, 'a thousand real codes');
my $before = $frontend->resident;
my $random = 200_000;
srand 1;
my @alphabet = (0 .. 9, 'a' .. 'z', 'A' .. 'Z');
my %random_statuses;
for (1 .. $random / 10_000)
{
	my $statuses = ask_all(map { join '', map { $alphabet[ rand @alphabet ] } 1 .. 11 } 1 .. 10_000);
	$random_statuses{$_} += $statuses->{$_} for keys %$statuses;
}
is_deeply(\%random_statuses, { 404 => $random }, "$random random codes are all 404");
my $metrics = $frontend->metrics;
my ($links, $unknown) = map { $metrics->{qq(cache_bytes{part="$_"})} } 'links', 'unknown';
cmp_ok($unknown, '<=', 1024 * 1024, "they take an eighth of the cache at most ($unknown bytes)");
cmp_ok($links + $unknown, '<=', 8 * 1024 * 1024, '... which keeps its size');
cmp_ok($frontend->resident - $before, '<', 50_000, 'the program has not grown by more than 50 MB for them');
is($frontend->growth(sub { is_deeply(ask_all(@real), { 302 => 1000 }, 'the real codes') })->{cache_misses_total}, undef, '... are all still cached');

# Hosts are whatever visitors send.
is_deeply($frontend->many(50, map { "HEAD /good HTTP/1.1\r\nHost: h$_.example\r\n\r\n" } 1 .. 20_000), { 302 => 20_000 }, '20,000 hosts');
cmp_ok($frontend->resident - $before, '<', 60_000, '... are not all remembered');
like($frontend->log, qr/listening for changes/, 'it is the same program all the time');
$frontend->stop;

# A limit above what libraries think enough.
value(q{SELECT shortener.create_link('https://to.example/upload', alias => 'upload', redirect_status => 307)});
$frontend = Frontend->start(database => $node->connstr('postgres'), flags => [ '--max-body-size', '3MB' ]);
is($frontend->request('POST', '/upload', body => 'a' x 2_500_000)->{status}, 307, 'a body of 2.5 MB where 3 MB are allowed');
$frontend->stop;

# More connections than allowed are closed as they come; the others go on.
$frontend = Frontend->start(database => $node->connstr('postgres'), flags => [ '--max-connections', '20' ]);
my @open = map { $frontend->connect } 1 .. 20;
is(scalar(grep { $_->request('GET', '/good')->{status} == 302 } @open), 20, '20 connections are served');
my @over = map { $frontend->connect } 1 .. 5;
is(scalar(grep { $_->ends(10) } @over), 5, 'five more are closed');
is(scalar(grep { $_->request('GET', '/good')->{status} == 302 } @open), 20, 'the 20 go on');
is($frontend->metrics->{connections_refused_total}, 5, 'which is counted');
$_->close for @open;
ok(eventually { ($frontend->status('/good') // 0) == 302 }, 'and when they have gone there is room again');
$frontend->stop;

$node->stop;
done_testing();
