# Every routine of the schema, taken from the catalog, with hostile arguments: none crashes the server, raises an internal
# error or keeps memory. In three encodings at once, with statements cancelled in the middle. FUZZ_SECONDS says how
# long, FUZZ_SEED repeats a run's statements.
use strict;
use warnings;

use List::Util qw(min);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $seconds = $ENV{FUZZ_SECONDS} // 60;
my $seed = $ENV{FUZZ_SEED} // time ^ $$;
my @encodings = qw(UTF8 SQL_ASCII LATIN1);
my $chunk = 200;    # statements between two looks at the memory
note("FUZZ_SEED=$seed");

my $node = PostgreSQL::Test::Cluster->new('fuzz');
$node->init(extra => [ '--locale=C', '--encoding=UTF8' ]);
$node->append_conf('postgresql.conf', <<'CONF');
fsync = off
restart_after_crash = on
log_line_prefix = '%e %d: '
log_statement = none
autovacuum = off
CONF
$node->start;

# Text that has broken something somewhere, and what is special here.
my @words = (
	'', ' ', '0', '1', 'a', 'default', 'other', 'admin', 'cafe', '-1', '9223372036854775807', 'NULL', '%', '%s%n', '%00', '\\', "\\x00", "'", "''", '"', ';--',
	"\r\nSet-Cookie: a=b", "\t", "\n", "\x01", "\x7f", '$1', '{}', '{a,NULL}', '[]', '../../etc/passwd', '<script>', '(((((', '[a-z', 'a*b+c?', '*.', '*.example',
	'http://', 'https://', 'http://a', 'https://example.com/', 'HTTPS://EXAMPLE.com:443/Path?b=2&a=1&utm_source=x#f', 'http://u:p@h/', 'http://[::1]/', 'http://[',
	'http://0x7f.1', 'http://xn--/', 'http://a..b/', 'javascript:alert(1)', 'go.example', '1.2.3.4', '::ffff:1.2.3.4', 'example.com.', '.', '..', '/', '?', '#', '@', ':', '//',
	'sort_query', 'strip_tracking', 'strip_trailing_slash', 'unify_scheme', 'scrambled', 'sequential', 'snowflake', 'hour', 'day', 'month', 'country', 'writer', 'redirector',
	'Mozilla/5.0 (X11; Linux x86_64; rv:115.0) Gecko/20100101 Firefox/115.0', 'Googlebot/2.1 (+http://www.google.com/bot.html)', 'links:create', 'sk_', 'user@example.com',
	'pg_catalog', 'postgres', 'shortener', 'public', 'now', 'infinity');

sub pick { return $_[ rand @_ ]; }
sub quote { my ($text) = @_; $text =~ s/'/''/g; return "'$text'"; }

sub any_character
{
	my ($encoding) = @_;
	return pack 'C', 1 + int rand 127 if rand() < 0.5;
	return pack 'C', 128 + int rand 128 if $encoding ne 'UTF8';
	my $code = pick(0x80 + int rand 0x700, 0x800 + int rand 0xc000, 0xe000 + int rand 0x1fff, 0x10000 + int rand 0xfffff);
	utf8::encode(my $character = chr $code);
	return $character;
}

sub text_value
{
	my ($encoding) = @_;
	my $kind = rand;
	return quote(pick(@words)) if $kind < 0.4;
	return quote(join '', map { rand() < 0.6 ? pick(@words) : any_character($encoding) } 1 .. 1 + rand 6) if $kind < 0.8;
	return quote('https://' . join('', map { rand() < 0.7 ? pick(@words) : any_character($encoding) } 1 .. 1 + rand 6)) if $kind < 0.97;
	return sprintf q{(%s || repeat(%s, %d))}, quote(pick(@words)), quote(pick('a', '.', 'a.', '%41', '/../', '?a=b&', '[', '(a*)*', @words)), 10**(1 + rand 4);
}

my @integers = (-1, 0, 1, 2, 7, 36, 62, 63, 64, 255, 301, 302, 1000, 32767, -32768, 2147483647, -2147483648);
my %values = (
	text => \&text_value,
	name => \&text_value,
	varchar => \&text_value,
	bool => sub { pick(qw(true false)) },
	int2 => sub { pick(0, 1, -1, 302, 32767, -32768) },
	int4 => sub { pick(@integers) },
	int8 => sub { pick(@integers, 9223372036854775807, '-9223372036854775807 - 1', int rand 2**52) },
	oid => sub { pick(0, 1, 16384, 4294967295) },
	float8 => sub { pick("'NaN'", "'-Infinity'", 0, 1e308, rand) },
	numeric => sub { pick("'NaN'", "'Infinity'", 0, '1e1000', rand) },
	timestamptz => sub { pick("'infinity'", "'-infinity'", "'294276-01-01'", "'4713-01-01 BC'", 'now()', "now() + '1 day'", "now() - '1 day'", "'2024-02-29'") },
	interval => sub { pick("'0'", "'-1 day'", "'178000000 years'", "'-178000000 years'", "'1 day'", "'1 month'", "'00:00:00.000001'", "'1 hour'") },
	date => sub { pick("'infinity'", "'5874897-01-01'", "'4713-01-01 BC'", 'current_date') },
	inet => sub { pick("'0.0.0.0'", "'255.255.255.255/0'", "'::'", "'::ffff:1.2.3.4'", "'10.1.2.3/8'", "'fe80::1/64'", "'2001:db8::1'") },
	uuid => sub { pick("'00000000-0000-0000-0000-000000000000'", 'gen_random_uuid()') },
	bytea => sub { pick("''", "'\\x00'", "decode(repeat('ff', 11), 'hex')", "decode(repeat('00', 16), 'hex')", "decode(repeat('41', 5000), 'hex')") },
	jsonb => sub {
		pick("'null'", "'{}'", "'[]'", "'1e400'", q{'"\\u0001"'}, q{'{"a": [1, {"b": null}], "": ""}'}, q{(repeat('[', 500) || repeat(']', 500))::jsonb}, q{'{"cleanup": "x"}'});
	});

# A value of a type, by the name of pg_type; any other type has at least NULL.
sub value
{
	my ($type, $encoding) = @_;
	return "NULL::$type->{sql}" if rand() < 0.08;
	if (my ($element) = $type->{name} =~ /^_(.*)/)
	{
		my $many = rand() < 0.02 ? 2000 : int rand 5;
		return "array_fill(NULL::$type->{element}, '{2,2}')" if rand() < 0.03;
		return "'{}'::$type->{sql}" unless $many && $values{$element};
		my $array = 'ARRAY[' . join(', ', map { rand() < 0.05 ? 'NULL' : $values{$element}->($encoding) } 1 .. min($many, 5)) . "]::$type->{sql}";
		$array = "(SELECT array_agg(e) FROM unnest($array) e, generate_series(1, $many / 5))" if $many > 5;
		$array = "array_cat(NULL, ($array)[0:$many])" if rand() < 0.05;
		return rand() < 0.05 ? "('[5:5]={' || quote_ident((($array)[1])::text) || '}')::$type->{sql}" : $array;
	}
	my $make = $values{ $type->{name} };
	return $make ? '(' . $make->($encoding) . ")::$type->{sql}" : "NULL::$type->{sql}";
}

# One call: a procedure by CALL; of a function the whole result, as text, so that nothing of it is left out.
sub call
{
	my ($routine, $encoding) = @_;
	my @types = @{ $routine->{types} };
	$#types -= int rand($routine->{defaults} + 1);
	my @arguments = map { value($_, $encoding) } @types;
	$arguments[-1] = "VARIADIC $arguments[-1]" if $routine->{variadic} && @arguments == @{ $routine->{types} };
	my $call = "shortener.$routine->{name}(" . join(', ', @arguments) . ')';
	return "CALL $call;\n" if $routine->{procedure};
	return "SELECT $call;\n" if $routine->{trigger};
	return "SELECT count(f::text) FROM $call f;\n";
}

sub statements
{
	my ($routine, $encoding) = @_;
	my $kind = rand;
	return "SET statement_timeout = '" . pick(1, 3, 10, 30) . "ms';\n" . call($routine, $encoding) . "SET statement_timeout = '2s';\n" if $kind < 0.1;
	return 'BEGIN ISOLATION LEVEL ' . pick('READ COMMITTED', 'REPEATABLE READ', 'SERIALIZABLE') . ";\nSAVEPOINT s;\n"
	  . call($routine, $encoding) . "ROLLBACK TO s;\n" . call($routine, $encoding) . pick('COMMIT', 'ROLLBACK') . ";\n" if $kind < 0.25;
	return call($routine, $encoding);
}

# The signature of each routine of the schema.
sub routines
{
	my ($database) = @_;
	my %types;
	for (split /\n/, $node->safe_psql($database, q{SELECT t.oid, t.typname, format_type(t.oid, NULL), format_type(t.typelem, NULL) FROM pg_type t}))
	{
		my ($oid, $name, $sql, $element) = split /\|/;
		$types{$oid} = { name => $name, sql => $sql, element => $element };
	}
	return map {
		my ($name, $kind, $trigger, $defaults, $variadic, $arguments) = split /\|/, $_, -1;
		{ trigger => $trigger eq 't', name => $name, procedure => $kind eq 'p', defaults => $defaults, variadic => $variadic eq 't', types => [ map { $types{$_} } split / /, $arguments ] }
	  } split /\n/,
	  $node->safe_psql($database, q{
		SELECT quote_ident(proname), prokind, prorettype = 'trigger'::regtype, pronargdefaults, provariadic <> 0, proargtypes FROM pg_proc
		WHERE pronamespace = 'shortener'::regnamespace AND prokind IN ('f', 'p') ORDER BY proname, oid});
}

# In a child process: one long session, fed until the end of the time.
my $dir = PostgreSQL::Test::Utils::tempdir();
sub fuzz
{
	my ($encoding, $number, @routines) = @_;
	srand $seed + $number;
	local $ENV{PGCLIENTENCODING} = $encoding;
	local $ENV{PGAPPNAME} = 'fuzz session';
	my $end = time + $seconds;
	open(my $psql, '|-', "psql -XAtq -v VERBOSITY=sqlstate -d '" . $node->connstr(lc $encoding) . "' >$dir/$encoding.out 2>$dir/$encoding.err") or die "psql: $!";
	local $SIG{PIPE} = 'IGNORE';
	print $psql "SET statement_timeout = '2s';\n";
	for (my $next = 0; time < $end || $next < 60 * @routines;)
	{
		print $psql statements($routines[ $next++ % @routines ], $encoding) for 1 .. $chunk;
		print $psql "ROLLBACK;\nSELECT 'memory', substring(pg_read_file('/proc/self/status') FROM 'RssAnon:\\s+(\\d+)');\n";
	}
	return close $psql;
}

my %known;
for my $encoding (@encodings)
{
	my $database = lc $encoding;
	$node->safe_psql('postgres', "CREATE DATABASE $database TEMPLATE template0 ENCODING '$encoding' LOCALE 'C'");
	$node->safe_psql($database, q{CREATE EXTENSION shortener CASCADE; CALL shortener.install(); SELECT shortener.create_workspace('other', 'Other');
		SELECT shortener.create_workspace('untouched'); SELECT shortener.add_domain('untouched.example', 'untouched')}); # no word above names it
	$known{$encoding} = $node->safe_psql($database, q{SELECT shortener.shorten('https://known.example/', 'untouched')});
}

my @routines = routines('utf8');
cmp_ok(scalar @routines, '>', 50, scalar(@routines) . ' routines in the catalog');
is(scalar(grep { grep { !defined } @{ $_->{types} } } @routines), 0, 'the types of all arguments are known');

my @children;
for my $number (0 .. $#encodings)
{
	my $pid = fork // die "fork: $!";
	if (!$pid)
	{
		my $ended_well = eval { fuzz($encodings[$number], $number, @routines) } || 0;
		print STDERR $@ if $@;
		POSIX::_exit($ended_well ? 0 : 1);
	}
	push @children, $pid;
}

# Meanwhile some statements are cancelled.
my $cancelled = 0;
while (grep { waitpid($_, POSIX::WNOHANG()) == 0 } @children)
{
	my ($status, $count) = $node->psql('postgres',
		q{SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE application_name = 'fuzz session' AND state = 'active' AND random() < 0.3});
	die 'could not cancel' if $status;
	$cancelled += $count;
	sleep 0.05;
}
waitpid $_, 0 for @children;
cmp_ok($cancelled, '>', 0, "$cancelled statements were cancelled");

my $log = slurp_file($node->logfile);
my @crashes = $log =~ /^(.*(?:was terminated by signal|PANIC).*\n.*)/mg;
is(scalar @crashes, 0, 'no crash') or diag(@crashes);
my @internal = $log =~ /^(XX\d\d\d .*(?:\n(?!\w{5} ).*)*(?:\n.*(?:DETAIL|HINT|CONTEXT|STATEMENT):.*)*)/mg;
is(scalar @internal, 0, 'no internal error') or diag(map { substr($_, 0, 2000) . "\n" } @internal[ 0 .. min(4, $#internal) ]);

for my $encoding (@encodings)
{
	my @out = split /\n/, slurp_file("$dir/$encoding.out");
	my @err = split /\n/, slurp_file("$dir/$encoding.err");
	my @memory = map { /^memory\|(\d+)/ ? $1 : () } @out;
	my $succeeded = grep { /^\d+$/ } @out;
	my $failed = grep { /ERROR:  \w{5}$/ } @err;
	is(join("\n", grep { /FATAL|PANIC|server|connection/ } @err), '', "$encoding: the session stayed");
	cmp_ok($succeeded + $failed, '>=', @routines, "$encoding: $succeeded calls succeeded and $failed failed");
	cmp_ok($succeeded, '>', 0.1 * $failed, "$encoding: not all were refused");
	# What a session keeps comes in few steps, and most of it soon; what leaks grows from look to look.
	my @late = @memory[ @memory / 2 .. $#memory ];
	my @growth = sort { $a <=> $b } map { $late[$_] - $late[ $_ - 1 ] } 1 .. $#late;
	cmp_ok($growth[ @growth / 2 ], '<', 16, "$encoding: memory stays flat, from $late[0] to $late[-1] kB") or diag("@memory");
	cmp_ok($late[-1] - $late[0], '<', 128 * 1024, "$encoding: with few steps") or diag("@memory");
	is($node->safe_psql(lc $encoding, "SELECT location FROM shortener.resolve('$known{$encoding}', 'untouched.example')"), 'https://known.example/', "$encoding: a link is still found");
}

$node->stop;
done_testing();
