# What is known of visitors comes from files: what each session says when they are absent, and what it does when they are
# replaced.
use strict;
use warnings;
use utf8;

use MaxMind::DB::Writer::Tree;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $dir = PostgreSQL::Test::Utils::tempdir;

# Writes a GeoIP database of these networks, the larger before the smaller, and gives its path.
sub geoip_database
{
	my ($name, @networks) = @_;
	my %types = (country => 'map', city => 'map', names => 'map', iso_code => 'utf8_string', en => 'utf8_string', de => 'utf8_string');
	my $tree = MaxMind::DB::Writer::Tree->new(
		ip_version => 6,
		record_size => 24,
		database_type => 'Test-City',
		languages => ['en'],
		description => { en => 'places made up for a test' },
		alias_ipv6_to_ipv4 => 1,
		remove_reserved_networks => 0,
		map_key_type_callback => sub { return $types{ $_[0] } });
	while (my ($network, $place) = splice @networks, 0, 2)
	{
		$tree->insert_network($network, $place);
	}
	open(my $file, '>:raw', "$dir/$name") or die "$dir/$name: $!";
	$tree->write_tree($file);
	close $file;
	return "$dir/$name";
}

sub place
{
	my ($country, $city) = @_;
	return { country => { iso_code => $country }, defined $city ? (city => { names => { en => $city, de => 'not asked for' } }) : () };
}

my $database = geoip_database(
	'geo.mmdb',
	'203.0.113.0/24' => place('DE', 'Köln'),
	'203.0.113.128/25' => place('FR', 'Paris'),
	'2001:db8::/32' => place('JP'),
	'198.51.100.0/25' => place('too long', "a\nb"),
	'198.51.100.128/25' => { country => {} });

my $node = PostgreSQL::Test::Cluster->new('visitors');
$node->init(extra => [ '--locale=C', '--encoding=UTF8' ]);
$node->append_conf('postgresql.conf', "shortener.geoip_database = '$database'");
$node->start;

# What a new session prints, and its warnings.
sub session
{
	my ($script, $db) = @_;
	my ($status, $output, $error) = $node->psql($db // 'postgres', "SET search_path = shortener;\n$script");
	my @warnings = $error =~ /WARNING:  (.*)/g;
	return ($output, @warnings, $error =~ /(?:ERROR|FATAL|PANIC|server closed).*/g);
}

for my $encoding (qw(utf8 latin1 sql_ascii))
{
	$node->safe_psql('postgres', "CREATE DATABASE db_$encoding TEMPLATE template0 ENCODING '$encoding' LOCALE 'C'");
	$node->safe_psql("db_$encoding", 'CREATE EXTENSION shortener CASCADE');
}
$node->safe_psql('postgres', 'CREATE EXTENSION shortener CASCADE');

my $place = sub { return "SELECT concat_ws('/', country, city) FROM geo_lookup('$_[0]');\n" };
is_deeply([ session($place->('203.0.113.1')) ], ["DE/K\xc3\xb6ln"], 'country and city');
is_deeply([ session($place->('203.0.113.200')) ], ['FR/Paris'], 'of the smallest network');
is_deeply([ session($place->('::ffff:203.0.113.200')) ], ['FR/Paris'], 'of an IPv4 address mapped into IPv6');
is_deeply([ session($place->('2001:db8::1')) ], ['JP'], 'a country without a city');
is_deeply([ session($place->('192.0.2.1')) ], [''], 'an address that is not in the file');
is_deeply([ session($place->('198.51.100.1')) ], [''], 'no country and no city that could not be one');
is_deeply([ session($place->('198.51.100.200')) ], [''], 'an entry without what is asked for');
is_deeply([ session($place->('203.0.113.1'), 'db_latin1') ], ['DE/K??ln'], 'another encoding than UTF-8 loses letters, not clicks');
is_deeply([ session($place->('203.0.113.1'), 'db_sql_ascii') ], ['DE/K??ln'], 'nor does none');

# Replaced by another file, as programs that keep it up to date do
my $newer = geoip_database('newer.mmdb', '203.0.113.0/24' => place('AT', 'Wien'));
is_deeply([ session($place->('203.0.113.200') . "\\! mv $newer $database\n" . $place->('203.0.113.200')) ],
	["FR/Paris\nAT/Wien"], 'a file that is replaced is opened anew');

# Written over in place: what lay behind the new end cannot be read.
my $shorter = $place->('203.0.113.1') . "\\! : > $database\n" . $place->('203.0.113.1') x 3 . 'SELECT 1';
is_deeply([ session($shorter) ],
	[ "AT/Wien\n\n\n\n1", qq{could not open GeoIP database "$database": An attempt to read data from the MaxMind DB file failed} ],
	'a file that is cut short does not end the session, and is warned of once');

unlink $database;
is_deeply([ session($place->('203.0.113.1') x 3) ],
	[ "\n\n", qq{could not open GeoIP database "$database": No such file or directory} ],
	'a file that is absent is warned of once');
is_deeply([ session("SET shortener.geoip_database = '';\n" . $place->('203.0.113.1')) ], [''], 'none is asked for: no warning');

my $browser = "SELECT concat_ws('/', device_type, browser) FROM parse_user_agent('curl/7.88.1');\n";
is_deeply([ session($browser x 2) ], ["bot/curl\nbot/curl"], 'a user agent');
is_deeply([ session("SET shortener.user_agent_regexes = '$dir/none';\n" . $browser x 3) ],
	[ "unknown/unknown\nunknown/unknown\nunknown/unknown", 'user agents cannot be recognized' ],
	'regular expressions that are absent are warned of once');

# Names beyond ASCII, from the collection and from the User-Agent
append_to_file("$dir/regexes.yaml", "user_agent_parsers:\n  - regex: '^(.)x'\n    family_replacement: '\xc5\xbe\$1'\n");
my $beyond = "SET shortener.user_agent_regexes = '$dir/regexes.yaml';\nSELECT browser FROM parse_user_agent";
is_deeply([ session("$beyond(U&'\\00e9x')") ], ["\xc5\xbe\xc3\xa9"], 'UTF-8');
is_deeply([ session("$beyond(E'\\xe9x')", 'db_latin1') ], ['???'], 'LATIN1');
is_deeply([ session("$beyond(E'\\xe9x')", 'db_sql_ascii') ], ['???'], 'SQL_ASCII');

# A referrer is what the visitor's program sent, bytes of any encoding behind its host.
for my $encoding (qw(utf8 latin1 sql_ascii))
{
	my $bytes = $encoding eq 'utf8' ? "U&'https://host.example/\\00e9?\\00e9'" : "E'https://host.example/\\xe9?\\xe9'";
	is_deeply([ session(qq{SET client_min_messages = warning; CALL install(); SELECT FROM create_link('https://a.example/');
		SELECT FROM record_clicks(gen_random_uuid(), (SELECT array_agg(id) FROM link), '{now}', referers => ARRAY[$bytes]);
		SELECT host FROM referrer}, "db_$encoding") ], ["host.example"], "$encoding: the host of a referrer");
}

$node->stop;
done_testing();
