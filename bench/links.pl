# Links against hand-written SQL on the same tables. pgbench has numbers only: both sides read the URL, or what
# the reference wants in its place, by number from a table filled before. Codes may be numbers, so they come as
# parameters.
use strict;
use warnings;

use Bench;

my $seconds = $ENV{BENCH_SECONDS} // 5;
my $million = $ENV{BENCH_LINKS} // 1_000_000;
my $large = $ENV{BENCH_LARGE};
my $known = 100_000;
my $rounds = 7;

# Shortens URLs of 100 characters with these numbers.
sub fill
{
	my ($from, $to) = @_;
	for (my $first = $from; $first <= $to; $first += 10_000)
	{
		my $last = $first + 9_999 > $to ? $to : $first + 9_999;
		sql("SELECT count(*) FROM shortener.shorten_many((SELECT array_agg(rpad('https://example.com/' || i || '/', 100, 'x')) FROM generate_series($first, $last) i))");
	}
	sql('VACUUM ANALYZE shortener.link');
	return;
}

# So many links chosen at random, under the numbers from 1.
sub choose_known
{
	my ($count) = @_;
	sql("CREATE TABLE known AS SELECT row_number() OVER ()::int AS n, l.* FROM ("
		  . "SELECT original_url AS url, url_digest AS digest, short_code AS code FROM shortener.link ORDER BY random() LIMIT $count) l");
	sql('ALTER TABLE known ADD PRIMARY KEY (n)');
	sql('VACUUM ANALYZE known');
	die "fewer than $count links" if sql('SELECT count(*) FROM known') != $count;
	return;
}

sub links { return sql('SELECT count(*) FROM shortener.link'); }

# Runs a script that must make so many links.
sub making
{
	my ($count, @pgbench) = @_;
	my $before = links();
	my $result = pgbench(@pgbench);
	my $made = links() - $before;
	die "$made links instead of $count: $pgbench[0]" if $made != $count;
	return $result->{tps};
}

heading('links');
sql('CALL shortener.install()');
fill(1, $known);
choose_known($known);

# New URLs of 100 characters; every run takes the next ones.
my ($clients, $inserts, $batches) = (8, 500 * $seconds, 100);
my $new = 2 * $rounds * $clients * $inserts + 2 * 5 * $batches * 1000;
sql('CREATE UNLOGGED TABLE new AS SELECT n, url, substr(sha256(key || shortener.normalize_url(url)::bytea), 1, 11) AS digest,'
	  . " substr(translate(encode(sha256(url::bytea), 'base64'), '+/', '-_'), 1, 9) AS code"
	  . " FROM (SELECT n, rpad('https://new.example/' || n || '/', 100, 'x') AS url FROM generate_series(1, $new) n) u, shortener.workspace_key");
sql('ALTER TABLE new ADD PRIMARY KEY (n)');
sql('VACUUM ANALYZE new');
my $taken = 0;
sub take { my ($count) = @_; $taken += $count; return $taken - $count; }

my $insert = 'INSERT INTO shortener.link (workspace_id, short_code, original_url, url_digest, redirect_status) SELECT 1, code, url, digest, 302 FROM new';
my $create = sub {
	my ($statement) = @_;
	return sub {
		my $first = take($clients * $inserts);
		return making($clients * $inserts, "\\set i :i + 1\n\\set n $first + :client_id * $inserts + :i\n$statement;",
			clients => $clients, protocol => 'prepared', transactions => $inserts, define => ['i=0']);
	};
};
compare(
	"shorten of new URLs / prepared INSERT, $clients clients",
	unit => '/s', goal => '>= 0.85', rounds => $rounds,
	ours => $create->('SELECT shortener.shorten((SELECT url FROM new WHERE n = :n))'),
	reference => $create->("$insert WHERE n = :n ON CONFLICT DO NOTHING RETURNING short_code"));

# Statements with any number from 1 to $known.
my $look_up = sub {
	my ($statement) = @_;
	return sub {
		return pgbench("\\set n random(1, $known)\n$statement;", clients => $clients, protocol => 'prepared', seconds => $seconds)->{tps};
	};
};
my $find_url = 'SELECT short_code FROM shortener.link WHERE workspace_id = 1 AND url_digest = (SELECT digest FROM known WHERE n = %s) AND deleted_at IS NULL';
for my $n (1, $known)
{
	my ($url, $code) = split /\|/, sql("SELECT url, code FROM known WHERE n = $n");
	die 'the sides differ' if sql(sprintf $find_url, $n) ne $code || sql("SELECT shortener.shorten('$url')") ne $code;
}
compare(
	"shorten of known URLs / prepared point SELECT, $clients clients",
	unit => '/s', goal => '>= 0.7', rounds => $rounds,
	ours => $look_up->('SELECT shortener.shorten((SELECT url FROM known WHERE n = :n))'),
	reference => $look_up->(sprintf $find_url, ':n'));

my $create_many = sub {
	my ($statement) = @_;
	return sub {
		my $first = take($batches * 1000);
		return 1000 * making($batches * 1000, "\\set last :last + 1000\n" . sprintf($statement, "WHERE n > $first + :last - 1000 AND n <= $first + :last") . ';',
			protocol => 'prepared', transactions => $batches, define => ['last=0']);
	};
};
compare(
	'shorten_many, 100,000 new in arrays of 1,000 / INSERT SELECT',
	unit => '/s', goal => '>= 0.7', rounds => 5,
	ours => $create_many->('SELECT count(*) FROM shortener.shorten_many((SELECT array_agg(url) FROM new %s))'),
	reference => $create_many->("$insert %s"));

sql("INSERT INTO shortener.link (workspace_id, short_code, original_url, redirect_status) SELECT 1, n, url, 302 FROM known");
sql('VACUUM ANALYZE shortener.link');
my $resolve = 'SELECT * FROM shortener.resolve(%s)';
my $find_code = 'SELECT redirect_status, original_url, id, expires_at FROM shortener.link WHERE workspace_id = 1 AND short_code = %s';
for my $n (1, $known)
{
	my $url = sql("SELECT url FROM known WHERE n = $n");
	die 'the sides differ' if grep { index(sql(sprintf $_, "'$n'"), "302|$url|") < 0 } $resolve, $find_code;
}
compare(
	"resolve / prepared SELECT on the unique index, $clients clients",
	unit => '/s', goal => '>= 0.85', rounds => $rounds,
	ours => $look_up->(sprintf $resolve, ':n'),
	reference => $look_up->(sprintf $find_code, ':n'));

sql('CREATE TABLE known_64 AS SELECT n / 64 AS n, array_agg(n::text) AS codes FROM known GROUP BY 1 HAVING count(*) = 64');
sql('ALTER TABLE known_64 ADD PRIMARY KEY (n)');
sql('VACUUM ANALYZE known_64');
# A join, because Postgres takes the function into the query for a column, as for a parameter, and not for a subselect.
my $resolve_64 = $look_up->('SELECT r.* FROM known_64 k, shortener.resolve_many(k.codes) r WHERE k.n = :n % ' . int($known / 64 - 1) . ' + 1');
compare(
	"resolve_many of 64 / resolve, look-ups, $clients clients",
	unit => '/s', goal => '>= 3', rounds => $rounds,
	ours => sub { return 64 * $resolve_64->() },
	reference => $look_up->(sprintf $resolve, ':n'));

# Size.
sql('TRUNCATE shortener.link');
fill(1, $million);
my $bytes = sql("SELECT pg_total_relation_size('shortener.link')::float / count(*) FROM shortener.link");
compare("bytes a link at $million links of 100 characters / 285", unit => 'B', goal => '<= 1', rounds => 1, ours => sub { $bytes }, reference => sub { 285 });

# Cost by size: two databases, the same number of different codes in each.
if (!$large)
{
	remark('resolve at 10,000,000 links / at 100,000: not measured; set BENCH_LARGE=10000000, which takes a while');
	exit;
}
my $different = 10_000;
my $growth_of = sub {
	my ($look_up) = @_;
	my $ms_in = sub {
		local $ENV{PGDATABASE} = $_[0];
		return pgbench("\\set n random(1, $different / 1000)\nSELECT count(r.*) FROM known k, LATERAL ($look_up) r WHERE k.n > (:n - 1) * 1000 AND k.n <= :n * 1000;",
			protocol => 'prepared', seconds => $seconds)->{ms};
	};
	return sub { return $ms_in->('bench') / $ms_in->('bench_small') };
};
fill($million + 1, $large);
sql('DROP TABLE known');
choose_known($different);
sql('CREATE DATABASE bench_small');
{
	local $ENV{PGDATABASE} = 'bench_small';
	sql('SET client_min_messages = warning; CREATE EXTENSION shortener CASCADE; CALL shortener.install()');
	fill(1, 100_000);
	choose_known($different);
}
compare("resolve, time at $large links / at 100,000, against that of a SELECT", unit => '', goal => '<= 1.1', rounds => $rounds,
	ours => $growth_of->('SELECT * FROM shortener.resolve(k.code)'),
	# The fence keeps it a look-up for each code.
	reference => $growth_of->('SELECT l.redirect_status, l.original_url, l.id, l.expires_at FROM shortener.link l WHERE l.workspace_id = 1 AND l.short_code = k.code OFFSET 0'));
