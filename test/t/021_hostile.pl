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

# Raw requests, by the paragraph of the RFC that says what they are. Each is sent with a good request behind it, at once and
# then in two pieces. Expected is the status of the first answer and whether the connection goes on: "400 closed" for what
# two parsers could read differently.
my @requests;
sub raw
{
	my ($paragraph, $expected, @rest) = @_;
	while (my ($name, $bytes) = splice @rest, 0, 2)
	{
		push @requests, [ $paragraph, $expected, $name, $bytes ];
	}
	return;
}
sub printable { my ($text) = @_; $text =~ s/([^ -~])/sprintf '\\x%02x', ord $1/ge; return $text; }

my $host = "Host: a\r\n";
my $get = "GET /good HTTP/1.1\r\n";
my $post = "POST /post HTTP/1.1\r\n$host";
my $chunked = "${post}Transfer-Encoding: chunked\r\n\r\n";
my @controls = map { chr } 0 .. 8, 11, 12, 14 .. 31, 127;
my @separators = split //, '"(),/;<=>?@[\]{}';
my @token_characters = split //, q{!#$%&'*+-.^_`|~09azAZ};

# Lines and their ends.
raw('RFC 9112, 2.2', '400 closed',
	'a bare LF after the request line' => "GET /good HTTP/1.1\n$host\r\n",
	'a bare LF after a field' => "${get}Host: a\n\r\n",
	'a bare LF after the last field' => "$get${host}X: a\n\r\n",
	'a bare LF at the end' => "$get$host\n",
	'bare LFs alone' => "GET /good HTTP/1.1\nHost: a\n\n",
	'a bare CR after the request line' => "GET /good HTTP/1.1\rHost: a\r\n\r\n",
	'a bare CR in the request line' => "GET /good\r HTTP/1.1\r\n$host\r\n",
	'a bare CR in the target' => "GET /go\rod HTTP/1.1\r\n$host\r\n",
	'a bare CR in a field' => "$get${host}X: a\rb\r\n\r\n",
	'a bare CR before a field' => "$get\r$host\r\n",
	'a bare CR in a field name' => "$get${host}X\ry: b\r\n\r\n",
	'a CR too many' => "GET /good HTTP/1.1\r\r\n$host\r\n",
	'a CR too many after a field' => "${get}Host: a\r\r\n\r\n",
	'a CR too many at the end' => "$get$host\r\r\n",
	'an LF first' => "\n$get$host\r\n",
	'two empty lines first' => "\r\n\r\n$get$host\r\n",
	'a CR first' => "\r$get$host\r\n",
	'a space first' => " $get$host\r\n",
	'a tab first' => "\t$get$host\r\n",
	'a NUL first' => "\0$get$host\r\n",
	'space before the first field' => "$get $host\r\n",
	'a tab before the first field' => "$get\t$host\r\n",
	'a line of spaces before the first field' => "$get  \r\n$host\r\n",
	'a byte order mark first' => "\xef\xbb\xbf$get$host\r\n",
	'a TLS hello' => "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n",
	'a greeting of SSH' => "SSH-2.0-client\r\n",
	'a greeting of SMTP' => "EHLO a\r\n",
	'the header of the PROXY protocol' => "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n$get$host\r\n",
	'nonsense' => "nonsense\r\n\r\n");
raw('RFC 9112, 2.2', '302 goes on', 'an empty line first' => "\r\n$get$host\r\n");

# The request line.
raw('RFC 9112, 2.3', '400 closed',
	(map { ("version \"$_\"" => "GET /good $_\r\n$host\r\n") } 'HTTP/0.9', 'HTTP/1.2', 'HTTP/2.0', 'HTTP/3.0', 'HTTP/9.9', 'HTTP/1', 'HTTP/1.', 'HTTP/.1',
		'HTTP/1.10', 'HTTP/01.1', 'HTTP/1.01', 'HTTP/11', 'http/1.1', 'Http/1.1', 'HTTPS/1.1', 'HTTP /1.1', 'HTTP/ 1.1', 'HTTP/1.1x', 'HTTP/1,1', 'HTTP-1.1',
		'HTTP/1.1 ', "HTTP/1.1\t", 'HTTP/a.b', 'HTTP/-1.1', 'HTTP/+1.1', 'ICY/1.1', '1.1', 'HTTP/1.1;'),
	'the preface of HTTP/2' => "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
raw('RFC 9112, 3', '400 closed',
	'no version' => "GET /good\r\n\r\n",
	'no version, but a space' => "GET /good \r\n\r\n",
	'no target' => "GET HTTP/1.1\r\n$host\r\n",
	'an empty target' => "GET  HTTP/1.1\r\n$host\r\n",
	'no method' => "/good HTTP/1.1\r\n$host\r\n",
	'an empty method' => " /good HTTP/1.1\r\n$host\r\n",
	'two spaces' => "GET  /good HTTP/1.1\r\n$host\r\n",
	'two spaces before the version' => "GET /good  HTTP/1.1\r\n$host\r\n",
	'space in the target' => "GET /go od HTTP/1.1\r\n$host\r\n",
	'tab for space' => "GET\t/good\tHTTP/1.1\r\n$host\r\n",
	'a vertical tab for space' => "GET\x0b/good HTTP/1.1\r\n$host\r\n",
	'a form feed for space' => "GET /good\x0cHTTP/1.1\r\n$host\r\n",
	'two request lines' => "${get}${get}${host}\r\n");
raw('RFC 9112, 3.1', '400 closed',
	(map { ('method G' . printable($_) . 'T' => "G${_}T /good HTTP/1.1\r\n$host\r\n") } @separators, ':', "\0", "\t", "\x7f", "\x80", "\xff"),
	'a method of 33 characters' => 'A' x 33 . " /post HTTP/1.1\r\n$host\r\n");
raw('RFC 9112, 3.1', '307 goes on', map { ("method $_" => "$_ /post HTTP/1.1\r\n$host\r\n") }
	  qw(POST PUT DELETE PATCH OPTIONS TRACE PROPFIND get Get X), q{!#$%&'*+-.^_`|~09}, 'A' x 32);
raw('RFC 9110, 9.3', '405 goes on', map { ("method $_ on a link of 302" => "$_ /good HTTP/1.1\r\n$host\r\n") } qw(POST PUT DELETE PATCH OPTIONS TRACE));

# The target.
raw('RFC 9112, 3.2', '400 closed', map { ('target with ' . printable($_) => "GET /go${_}od HTTP/1.1\r\n$host\r\n") } @controls, "\xc3\xb6", "\xff");
raw('RFC 9112, 3.2', '400 closed', map { ("target $_" => "GET $_ HTTP/1.1\r\n$host\r\n") } qw(good ?good **),
	  '#good', './good', '../good', '%2fgood', '\\good', 'good/', 'a/good', 'a:80', 'http', 'http:', 'http:/good', 'http:good', '://a/good');
raw('RFC 9112, 3.2.1', '302 goes on', map { ("target $_" => "GET $_ HTTP/1.1\r\n$host\r\n") } qw(/good /good? /good?a=b /good/ /good?"<>[]{}|\\^` /%67ood));
raw('RFC 9112, 3.2.1', '404 goes on', map { ("target $_" => "GET $_ HTTP/1.1\r\n$host\r\n") } qw(//good /./good /a/../good /good%00 /good%zz /good%), '/good#a', '/good\\');
raw('RFC 9112, 3.2.2', '400 closed',
	'an absolute form that disagrees with Host' => "GET http://b/good HTTP/1.1\r\n$host\r\n",
	'an absolute form with credentials' => "GET http://u:p\@a/good HTTP/1.1\r\n$host\r\n",
	'an absolute form without a host' => "GET http:///good HTTP/1.1\r\n$host\r\n",
	'an absolute form of another scheme' => "GET ftp://a/good HTTP/1.1\r\n$host\r\n",
	'an absolute form with a bad port' => "GET http://a:b/good HTTP/1.1\r\n$host\r\n",
	'an absolute form without Host' => "GET http://a/good HTTP/1.1\r\n\r\n",
	'an absolute form and two Hosts' => "GET http://a/good HTTP/1.1\r\n$host$host\r\n");
raw('RFC 9112, 3.2.2', '302 goes on',
	'an absolute form' => "GET http://a/good HTTP/1.1\r\n$host\r\n",
	'an absolute form with https' => "GET https://a/good HTTP/1.1\r\n$host\r\n",
	'an absolute form in upper case' => "GET HTTP://A/good HTTP/1.1\r\n$host\r\n",
	'an absolute form with a port' => "GET http://a:8080/good HTTP/1.1\r\nHost: a:8080\r\n\r\n");
raw('RFC 9112, 3.2.3', '400 closed', 'CONNECT' => "CONNECT a:443 HTTP/1.1\r\n$host\r\n");
raw('RFC 9112, 3.2.4', '404 goes on', 'an asterisk' => "OPTIONS * HTTP/1.1\r\n$host\r\n");

# Host.
raw('RFC 9112, 3.2', '400 closed',
	'no Host' => "$get\r\n",
	'two Hosts' => "$get${host}Host: b\r\n\r\n",
	'two equal Hosts' => "$get$host$host\r\n",
	'two Hosts, one of them empty' => "$get${host}Host:\r\n\r\n",
	'two Hosts in other letters' => "$get${host}hOST: a\r\n\r\n",
	'two Hosts in HTTP/1.0' => "GET /good HTTP/1.0\r\n$host$host\r\n");
raw('RFC 9110, 7.2', '400 closed', map { ('Host: ' . printable(substr $_, 0, 30) => "${get}Host: $_\r\n\r\n") }
	  'a b', 'a/b', 'u@a', 'a:b', 'a:80:80', 'a:-1', 'a:+80', 'a:123456', 'a: 80', 'a :80', ':80:', '[', ']', '[]', '[]:80', '[::1', '::1]', '[::1]80',
	  '[::1]:x', '[a]', '[g::1]', '[::1%25eth0]', '[::1]a', '::1', 'a,b', 'a;b', 'a"b', "a'b", 'a\\b', 'a?b', 'a#b', 'a%62', '<a>', '(a)', 'a|b', '*', "\xc3\xa4", "a\tb",
	  'http://a', '//a', 'a' x 254);
raw('RFC 9110, 7.2', '302 goes on', map { ("Host: $_" => "${get}Host: $_\r\n\r\n") }
	  '', 'a', 'A.B.C', 'a.', 'a:80', 'a:', ':80', '127.0.0.1', '127.0.0.1:8080', '[::1]', '[::1]:80', '[::ffff:127.0.0.1]', 'xn--bcher-kva.example', 'a_b', 'a-b', 'a.:8080');
raw('RFC 9112, 3.2', '302 closed', 'HTTP/1.0 without Host' => "GET /good HTTP/1.0\r\n\r\n");

# Fields.
raw('RFC 9112, 5', '400 closed',
	'a field without a colon' => "$get${host}nonsense\r\n\r\n",
	'a field without a name' => "$get${host}: a\r\n\r\n",
	'a colon alone' => "$get${host}:\r\n\r\n",
	'a line of spaces' => "$get$host \r\n\r\n",
	(map { ('a field name with ' . printable($_) => "$get${host}X${_}Y: a\r\n\r\n") } @separators, ' ', "\t", "\0", "\x7f", "\x80", "\xff"));
raw('RFC 9112, 5.1', '400 closed',
	'space before a colon' => "${get}Host : a\r\n\r\n",
	'a tab before a colon' => "${get}Host\t: a\r\n\r\n",
	'space before the colon of Content-Length' => "${post}Content-Length : 3\r\n\r\nabc",
	'space before the colon of Transfer-Encoding' => "${post}Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
	'space before the colon of an unknown field' => "$get${host}X : a\r\n\r\n");
raw('RFC 9112, 5.2', '400 closed',
	'a folded field' => "$get${host}X: a\r\n b\r\n\r\n",
	'a field folded with a tab' => "$get${host}X: a\r\n\tb\r\n\r\n",
	'a field folded twice' => "$get${host}X: a\r\n b\r\n c\r\n\r\n",
	'a field folded before its value' => "$get${host}X:\r\n b\r\n\r\n",
	'a field folded before its value, after a space' => "$get${host}X: \r\n b\r\n\r\n",
	'a field folded after its value' => "$get${host}X: a\r\n \r\n\r\n",
	'a field folded around nothing' => "$get${host}X:\r\n \r\n\r\n",
	'a field folded around a header' => "$get${host}X: a\r\n Content-Length: 3\r\n\r\n",
	'a folded field of 5 kB' => "$get${host}X: a\r\n " . 'b' x 5000 . "\r\n\r\n",
	'a folded Host' => "${get}Host:\r\n a\r\n\r\n",
	'a folded Content-Length' => "${post}Content-Length:\r\n 3\r\n\r\nabc",
	'a folded Transfer-Encoding' => "${post}Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n");
raw('RFC 9110, 5.5', '400 closed', map { ('a field value with ' . printable($_) => "$get${host}X: a${_}b\r\n\r\n") } @controls);
raw('RFC 9110, 5.5', '302 goes on',
	'an empty field' => "$get${host}X:\r\n\r\n",
	'no space after the colon' => "$get${host}X:a\r\n\r\n",
	'spaces and tabs around a value' => "$get${host}X: \t a \t \r\n\r\n",
	'a tab in a value' => "$get${host}X: a\tb\r\n\r\n",
	'bytes beyond ASCII in a value' => "$get${host}X: \x80\xff\xc3\xa4\r\n\r\n",
	'colons in a value' => "$get${host}X: a: b: c\r\n\r\n");
raw('RFC 9110, 5.6.2', '302 goes on', map { ("a field name with $_" => "$get${host}X${_}Y: a\r\n\r\n") } @token_characters);
raw('RFC 9110, 5.3', '302 goes on', 'a field in several lines' => "$get${host}Accept: a\r\nAccept: b\r\nAccept: c\r\n\r\n");

# The length of the body.
raw('RFC 9112, 6.1', '400 closed',
	(map { ('Transfer-Encoding: ' . printable($_) => "${post}Transfer-Encoding: $_\r\n\r\n0\r\n\r\n") } 'xchunked', 'chunkedx', 'chunk', 'chunked, identity', 'identity',
		'gzip', 'gzip, chunked', 'chunked, gzip', 'chunked, chunked', 'chunked,', ', chunked', 'chunked;q=1', '"chunked"', "'chunked'", 'chunked chunked', "\x0bchunked",
		"chunked\x0b", "chunked\0", "\xc4\xb1chunked", '', '0', 'none'),
	'two Transfer-Encodings' => "${post}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	'two Transfer-Encodings, one of them unknown' => "${post}Transfer-Encoding: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	'two Transfer-Encodings, the second unknown' => "${post}Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n",
	'Transfer-Encoding in HTTP/1.0' => "POST /post HTTP/1.0\r\n${host}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	'Transfer_Encoding is nobody\'s, with a space' => "${post}Transfer Encoding: chunked\r\n\r\n0\r\n\r\n");
raw('RFC 9112, 6.1', '400 closed',
	'Content-Length with Transfer-Encoding' => "${post}Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	'Transfer-Encoding with Content-Length' => "${post}Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
	'Transfer-Encoding with a Content-Length of 0' => "${post}Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n",
	'Content-Length with an unknown Transfer-Encoding' => "${post}Content-Length: 5\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n",
	'Content-Length between two Transfer-Encodings' => "${post}Transfer-Encoding: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
raw('RFC 9112, 6.3', '400 closed',
	'two Content-Lengths' => "${post}Content-Length: 3\r\nContent-Length: 5\r\n\r\nabcde",
	'two equal Content-Lengths' => "${post}Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
	'two Content-Lengths of a GET' => "$get${host}Content-Length: 0\r\nContent-Length: 0\r\n\r\n",
	(map { ('Content-Length: ' . printable($_) => "${post}Content-Length: $_\r\n\r\nabcde") } '5, 5', '5,5', '5,', ',5', '5, 6', '+5', '-5', '-0', '0x5', '5h', '5 5', '5 ,', '5.0', '5e0', '',
		'five', '"5"', "5\x0b", "5\0", "\x0c5", "\xef\xbc\x95", '18446744073709551616', '99999999999999999999', '100000000000000000000000000000005', 'infinity'));
raw('RFC 9112, 6.3', '307 goes on',
	'Content-Length: 3' => "${post}Content-Length: 3\r\n\r\nabc",
	'Content-Length: 003' => "${post}Content-Length: 003\r\n\r\nabc",
	'Content-Length: 0' => "${post}Content-Length: 0\r\n\r\n",
	'Content-Length in spaces' => "${post}Content-Length:  \t 3 \t \r\n\r\nabc",
	'CONTENT-LENGTH' => "${post}CONTENT-LENGTH: 3\r\n\r\nabc",
	'no length at all' => "$post\r\n",
	'a body that looks like a request' => "${post}Content-Length: " . length("$get$host\r\n") . "\r\n\r\n$get$host\r\n",
	'a GET with a body' => "GET /post HTTP/1.1\r\n${host}Content-Length: 3\r\n\r\nabc",
	'a field that looks like one of a length' => "${post}X-Content-Length: 3\r\nContent_Length: 3\r\n\r\n");

# Chunks.
raw('RFC 9112, 7.1', '400 closed',
	(map { ('a chunk of size "' . printable($_) . '"' => "$chunked$_\r\nabc\r\n0\r\n\r\n") } '', ' ', ' 3', '3 ', "3\t", '0x3', '+3', '-3', '-1', 'g', 'xyz', '3g', '3,', '3.0', '3 3', "3\x0b", "3\0",
		"\xef\xbc\x93", '"3"', '10000000000000000', '100000000000000003'),
	'a chunk longer than it says' => "${chunked}3\r\nabcdef\r\n0\r\n\r\n",
	'a chunk shorter than it says' => "${chunked}5\r\nabc\r\n0\r\n\r\n\r\n",
	'no line end after a chunk' => "${chunked}3\r\nabc0\r\n\r\n",
	'an LF after a chunk' => "${chunked}3\r\nabc\n0\r\n\r\n",
	'a CR after a chunk' => "${chunked}3\r\nabc\r0\r\n\r\n",
	'an LF after a size' => "${chunked}3\nabc\r\n0\r\n\r\n",
	'a CR after a size' => "${chunked}3\rabc\r\n0\r\n\r\n",
	'an LF after the last chunk' => "${chunked}0\n\r\n\r\n",
	'LFs only' => "${chunked}3\nabc\n0\n\n",
	'an empty line before the chunks' => "$chunked\r\n3\r\nabc\r\n0\r\n\r\n");
raw('RFC 9112, 7.1.1', '400 closed',
	(map { ('chunk extension ' . printable(substr $_, 0, 30) => "${chunked}3$_\r\nabc\r\n0\r\n\r\n") } ';', ';;', ';=b', ';a=', ';a b', ';a=b"c', ";a\0", ";a\x01", ";a\x7f", ";a\nb", ";a=\"b\nc\"",
		";a=\"\0\"", ' ;a', "\t;a", ';a=b c', ',a', ';"a"', ';a=(b)', ';' . 'a' x 5000),
	'an extension of the last chunk with an LF' => "${chunked}0;a=\"b\nc\"\r\n\r\n",
	'extensions of many chunks, of 20 kB' => $chunked . ('1;' . 'a' x 1000 . "\r\nx\r\n") x 20 . "0\r\n\r\n");
raw('RFC 9112, 7.1.2', '400 closed',
	(map { ('trailer ' . printable(substr $_, 0, 30) => "${chunked}0\r\n$_\r\n\r\n") } 'nonsense', ': a', 'X : a', ' X: a', "X: a\n", "X: a\r\n b", "X:\r\n b", "X: \0", "X: a\rb", "X\x80: a", 'X(: a',
		'Content-Length: 3', 'Transfer-Encoding: chunked', join("\r\n", ('X: a') x 101)));
raw('RFC 9112, 7.1', '307 goes on',
	'a chunk' => "${chunked}3\r\nabc\r\n0\r\n\r\n",
	'no chunk' => "${chunked}0\r\n\r\n",
	'zeros before a size' => "${chunked}0003\r\nabc\r\n000\r\n\r\n",
	'a size in upper case' => "${chunked}A\r\n0123456789\r\n0\r\n\r\n",
	'a size in lower case' => "${chunked}a\r\n0123456789\r\n0\r\n\r\n",
	'a chunk that looks like the last' => "${chunked}5\r\n0\r\n\r\n\r\n0\r\n\r\n",
	'CHUNKED' => "${post}TRANSFER-ENCODING:\tCHUNKED \r\n\r\n0\r\n\r\n",
	(map { ("chunk extension $_" => "${chunked}3$_\r\nabc\r\n0\r\n\r\n") } ';a', ';a=b', ';a="b c"', ';a;b', ';a=b;c="d"', ';a="\\""'),
	'a trailer' => "${chunked}0\r\nX: a\r\n\r\n",
	'two trailers' => "${chunked}3\r\nabc\r\n0\r\nX: a\r\nY:\r\n\r\n",
	'a Host among the trailers' => "${chunked}0\r\nHost: b\r\n\r\n");

# The connection.
raw('RFC 9112, 9.3', '302 closed',
	'Connection: close' => "$get${host}Connection: close\r\n\r\n",
	'Connection: te, Close' => "$get${host}Connection: te, Close\r\n\r\n",
	'Connection: close, keep-alive' => "$get${host}Connection: close, keep-alive\r\n\r\n",
	'close in a second line' => "$get${host}Connection: te\r\nConnection: close\r\n\r\n",
	'HTTP/1.0' => "GET /good HTTP/1.0\r\n$host\r\n",
	'HTTP/1.0 with Proxy-Connection' => "GET /good HTTP/1.0\r\n${host}Proxy-Connection: keep-alive\r\n\r\n");
raw('RFC 9112, 9.3', '302 goes on',
	'Connection: keep-alive' => "$get${host}Connection: keep-alive\r\n\r\n",
	'Connection: upgrade' => "$get${host}Connection: upgrade\r\nUpgrade: websocket\r\n\r\n",
	'an upgrade to HTTP/2' => "$get${host}Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
	'HTTP/1.0 that asks to go on' => "GET /good HTTP/1.0\r\n${host}Connection: Keep-Alive\r\n\r\n",
	'Proxy-Connection: close' => "$get${host}Proxy-Connection: close\r\n\r\n");
raw('RFC 9110, 10.1.1', '302 goes on', 'an expectation that nobody knows' => "$get${host}Expect: wonders\r\n\r\n");

# Sizes.
raw('RFC 9110, 15.5.15', '414 closed',
	'a megabyte of target' => 'GET /' . 'a' x 1_000_000 . " HTTP/1.1\r\n$host\r\n",
	'a target over 4 kB' => 'GET /good?' . 'a' x 4096 . " HTTP/1.1\r\n$host\r\n",
	'an absolute form over 4 kB' => 'GET http://a/good?' . 'a' x 4096 . " HTTP/1.1\r\n$host\r\n");
raw('RFC 6585, 5', '431 closed',
	'a megabyte in a field' => "$get${host}X: " . 'a' x 1_000_000 . "\r\n\r\n",
	'a megabyte of a field name' => "$get${host}" . 'a' x 1_000_000 . ": b\r\n\r\n",
	'a megabyte of fields' => "$get$host" . join('', map { "X-$_: " . 'a' x 1000 . "\r\n" } 1 .. 1000) . "\r\n",
	'a head over 16 kB' => "$get${host}" . ('X: ' . 'a' x 995 . "\r\n") x 17 . "\r\n",
	'1,000 fields' => "$get$host" . join('', map { "X-$_: a\r\n" } 1 .. 1000) . "\r\n",
	'101 fields' => "$get$host" . "X: a\r\n" x 100 . "\r\n");
raw('RFC 9110, 15.5.14', '413 closed',
	'a body over 64 kB' => "${post}Content-Length: 65537\r\n\r\n" . 'a' x 65537,
	'a body that would be huge' => "${post}Content-Length: 999999999999\r\n\r\n",
	'a huge body that is announced' => "${post}Content-Length: 999999999999\r\nExpect: 100-continue\r\n\r\n",
	'a body that is as long as a number can be' => "${post}Content-Length: 18446744073709551615\r\n\r\n",
	'a chunk over 64 kB' => "${chunked}10001\r\n" . 'a' x 65537 . "\r\n0\r\n\r\n",
	'a chunk that would be huge' => "${chunked}ffffffffffffffff\r\nabc\r\n0\r\n\r\n",
	'chunks over 64 kB' => $chunked . ("1000\r\n" . 'a' x 4096 . "\r\n") x 17 . "0\r\n\r\n",
	'chunks whose sum is no number' => "${chunked}1\r\na\r\nffffffffffffffff\r\nabc\r\n");
raw('RFC 9110, 15', '302 goes on',
	'100 fields' => "$get$host" . "X: a\r\n" x 99 . "\r\n",
	'a target of 4 kB' => 'GET /good?' . 'a' x 4000 . " HTTP/1.1\r\n$host\r\n",
	'a head of 16 kB' => "$get$host" . ('X: ' . 'a' x 995 . "\r\n") x 16 . "\r\n");
raw('RFC 9110, 15', '307 goes on', 'a body of 64 kB' => "${post}Content-Length: 65536\r\n\r\n" . 'a' x 65536);

# The status of the first answer, and whether the good request behind it was answered; `pieces` of the bytes are sent apart.
sub outcome
{
	my ($bytes, @pieces) = @_;
	my $client = $frontend->connect;
	for my $piece (@pieces ? @pieces : $bytes . $good)
	{
		$client->send($piece);
		sleep 0.002 if @pieces;
	}
	my $first = $client->response;
	my $status = $first->{status} // return join ' ', 'no answer', %$first;
	my $second = $client->response;
	return "$status goes on" if ($second->{location} // '') eq 'https://to.example/good';
	return $client->ends ? "$status closed" : join ' ', $status, 'and then', %$second;
}
cmp_ok(scalar(@requests), '>=', 300, scalar(@requests) . ' raw requests');
for (@requests)
{
	my ($paragraph, $expected, $name, $bytes) = @$_;
	is(outcome($bytes), $expected, "$paragraph: $name: $expected");
	my $cut = int rand length $bytes;
	is(outcome('', substr($bytes, 0, $cut), substr($bytes, $cut) . $good), $expected, "... in two pieces, cut at $cut");
}

{
	my $client = $frontend->connect;
	$client->send("HEAD /good HTTP/1.1\r\n${host}Host: b\r\n\r\n");
	is($client->response('HEAD')->{status}, 400, 'a refused HEAD: 400');
	ok($client->ends(10), '... without a body');
}

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
