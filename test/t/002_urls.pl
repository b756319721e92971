# The URL functions give one answer whatever the encoding of the database, or say clearly why they cannot.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes 'time';

my $node = PostgreSQL::Test::Cluster->new('urls');
$node->init(extra => [ '--locale=C', '--encoding=UTF8' ]);
$node->start;

# Runs a statement in the database of that encoding; gives its output, or what it failed with.
sub answer
{
	my ($encoding, $statement) = @_;
	my ($status, $output, $error) = $node->psql("db_$encoding", "SET client_encoding = $encoding; SET log_error_verbosity = verbose;\n\\set VERBOSITY sqlstate\n$statement");
	return $status == 0 && $error eq '' ? $output : $error =~ /ERROR:\s+(\w+)/ ? $1 : "?$error";
}

for my $encoding (qw(utf8 latin1 euc_jp mule_internal sql_ascii))
{
	$node->safe_psql('postgres', "CREATE DATABASE db_$encoding TEMPLATE template0 ENCODING '$encoding' LOCALE 'C'");
	$node->safe_psql("db_$encoding", 'CREATE EXTENSION shortener CASCADE');
	is(answer($encoding, q(SELECT shortener.normalize_url('HTTP://EXAMPLE.com:80/a b/?b&utm_source=x&a'))),
		'https://example.com/a%20b?a&b', "$encoding: ASCII");
}

# ü and ß, in bytes of each encoding
my %german = (utf8 => [ '\xc3\xbc', '\xc3\x9f' ], latin1 => [ '\xfc', '\xdf' ], sql_ascii => [ '\xc3\xbc', '\xc3\x9f' ]);
for my $encoding (sort keys %german)
{
	my ($u, $s) = @{ $german{$encoding} };
	is(answer($encoding, "SELECT shortener.canonical_url(E'http://m${u}nchen.de/stra${s}e?$u#$s')"),
		'http://xn--mnchen-3ya.de/stra%C3%9Fe?%C3%BC#%C3%9F', "$encoding: beyond ASCII, converted");
}
is(answer('euc_jp', q(SELECT shortener.canonical_url(E'http://h/\xa4\xa2'))), 'http://h/%E3%81%82', 'euc_jp: beyond ASCII, converted');
is(answer('mule_internal', q(SELECT shortener.canonical_url(E'http://h/\x81\xe9'))), '42883', 'mule_internal: there is no conversion to UTF-8');

for my $bytes ('\xff\xfe', '\xc0\xaf', '\xed\xa0\x80', '\xe2\x82')
{
	is(answer('sql_ascii', "SELECT shortener.canonical_url(E'http://h/$bytes')"), '22021', "sql_ascii: $bytes is not UTF-8");
	is(answer('sql_ascii', "SELECT shortener.normalize_url(E'http://h/$bytes')"), '22021', 'nor for normalize_url');
	is(answer('sql_ascii', "SELECT shortener.is_url(E'http://h/$bytes')"), 'f', 'nor a URL');
}

is(answer('latin1', q(SELECT shortener.canonical_url(E'\xfc' || repeat('x', 100)))), '22P02', 'latin1: an error shows its input');
is(answer('latin1', q(SELECT shortener.canonical_url(repeat(E'\xfc', 1000000)))), '54000', 'latin1: too long is too long');

# Long input takes time linear in its length, whether it is refused unseen or parsed: here 160 MB and 104 MB of it,
# where anything quadratic would take minutes.
my $hostile = sub {
	my ($bytes, $times) = @_;
	return $node->safe_psql('db_utf8', "SELECT count(shortener.is_url(url)), count(*) FILTER (WHERE shortener.is_url(url)) FROM
		(SELECT 'http://' || repeat(piece, $bytes / octet_length(piece)) AS url FROM generate_series(1, $times),
		unnest(E'{a,\\u00e9.,a/../,a/?&a=,%2e%2e/,1:,xn--a.,\\u754c}'::text[]) piece OFFSET 0) hostile");
};
my $start = time;
is($hostile->(1_000_000, 20), '160|0', 'megabytes are refused');
is($hostile->(65_000, 200), '1600|800', 'what is just short enough is parsed');
cmp_ok(time - $start, '<', 20, 'both quickly');

$node->stop;
done_testing();
