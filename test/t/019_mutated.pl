# Mutated requests against the frontend built with the sanitizers of addresses and of undefined behaviour, by clients
# that leave in the middle. MUTATED_REQUESTS says how many, 10,000 unless set.
use strict;
use warnings;

use Frontend;
use PostgreSQL::Test::Utils;
use Test::More;

my $count = $ENV{MUTATED_REQUESTS} // 10_000;
$ENV{SHORTENERD} = $ENV{ADDRESS_SANITIZED};
{
	my (undef, $out, $err) = run_shortenerd({ ASAN_OPTIONS => 'help=1' }, '--version');
	like("$out$err", qr/AddressSanitizer/, 'the program is built with the address sanitizer');
}
my $node = database('mutated');
$node->safe_psql('postgres', q{SELECT shortener.create_link('https://to.example/good', alias => 'good'),
	shortener.create_link('https://to.example/post', alias => 'post', redirect_status => 307)});
my $frontend = Frontend->start(
	database => $node->connstr('postgres'),
	flags => [ '--request-timeout', '1s', '--max-body-size', '1kB', '--max-header-size', '4kB', '--log-level', 'debug' ],
	environment => { ASAN_OPTIONS => 'detect_leaks=0', UBSAN_OPTIONS => 'print_stacktrace=1' });

my $seed = $ENV{MUTATED_SEED} // time;
note("MUTATED_SEED=$seed");
srand $seed;
my $chunked = "POST /post HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
my @requests = (
	"GET /good HTTP/1.1\r\nHost: links.example:80\r\nAccept: text/html\r\nX-Forwarded-For: 192.0.2.1\r\nX-Forwarded-For: 192.0.2.2\r\n\r\n",
	"HEAD /good HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "GET http://a/good?x=1 HTTP/1.1\r\nHost: a\r\nX:\r\n\r\n",
	"POST /post HTTP/1.1\r\nHost: [::1]:80\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nabcde",
	"${chunked}3;a=\"b\\\"c\";d\r\nabc\r\nA\r\n0123456789\r\n0;x\r\nTrailer: x\r\nAnother: y\r\n\r\n", "\r\nGET /%67ood HTTP/1.1\r\nHost: a\r\nUser-Agent: b\r\n\r\n");
my @pieces = ("\r\n", "\n", "\r", "\0", ' ', "\t", ':', ';', '"', '\\', ',', '%', '0', 'ffffffffffffffff', "\xff", 'HTTP/1.1', 'Host: a', "\r\n ", "\r\n\r\n",
	'Content-Length: 1', 'Transfer-Encoding: chunked', 'a' x 5000);
sub pick { return $_[ rand @_ ]; }
sub mutated
{
	my $bytes = join '', map { pick(@requests) } 0 .. rand 3;
	for (0 .. rand 4)
	{
		my $place = int rand length($bytes) + 1;
		my $kind = int rand 5;
		if ($kind == 0) { substr $bytes, $place, 1 + rand 3, '' }
		elsif ($kind == 1) { substr $bytes, $place, 0, pick(@pieces) }
		elsif ($kind == 2) { substr $bytes, $place, 1, chr rand 256 }
		elsif ($kind == 3) { substr $bytes, $place, 0, substr $bytes, rand length $bytes, rand 40 }
		else { $bytes = substr $bytes, 0, $place }
	}
	return $bytes;
}

# Some leave with a reset, some close in the middle, some wait for their answers.
my ($sent, %answers) = (0);
while ($sent < $count)
{
	my @clients = map { $frontend->connect } 1 .. 50;
	for my $client (@clients)
	{
		next unless $client->{socket};
		my $bytes = mutated();
		my $cut = int rand length $bytes;
		$client->send($_, 1) for rand() < 0.5 ? $bytes : (substr($bytes, 0, $cut), substr $bytes, $cut);
		$sent++;
		setsockopt $client->{socket}, Socket::SOL_SOCKET(), Socket::SO_LINGER(), pack 'ii', 1, 0 if rand() < 0.2;
		if (rand() < 0.3) { $client->close }
		else { shutdown $client->{socket}, 1 }
	}
	for my $client (grep { !$_->{ended} } @clients)
	{
		$client->ends(5);
		$answers{$_}++ for $client->{buffer} =~ m{^HTTP/1\.1 (\d{3}) }mg;
		$client->close;
	}
	last unless $frontend->alive;
}
cmp_ok($sent, '>=', $count, "$sent mutated requests, of clients that left in the middle too");
is(join(' ', grep { !/^(100|302|307|400|404|405|408|413|414|431)$/ } sort keys %answers), '', 'every answer is one of the contract')
  or diag(explain \%answers);
cmp_ok($answers{$_} // 0, '>', 0, "... $_: " . ($answers{$_} // 0)) for 302, 307, 400;
is($frontend->status('/good'), 302, 'and it goes on');
$frontend->signal('TERM');
is($frontend->wait_for_end(30), 0, 'it ends well');
unlike($frontend->log, qr/Sanitizer|runtime error/, 'the sanitizers have nothing to report');

$node->stop;
done_testing();
