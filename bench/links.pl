# Links against hand-written SQL on the same tables.
use strict;
use warnings;

use Bench;

my $seconds = $ENV{BENCH_SECONDS} // 5;
my $million = $ENV{BENCH_LINKS} // 1_000_000;

sql('CALL shortener.install(); ALTER DATABASE bench SET synchronous_commit = on');

# 100 characters.
sub url_sql { my ($number) = @_; return "rpad('https://example.com/' || $number || '/', 100, 'x')"; }

sub fill
{
	my ($from, $to) = @_;
	for (my $first = $from; $first <= $to; $first += 10_000)
	{
		my $last = $first + 9_999 > $to ? $to : $first + 9_999;
		sql("SELECT count(*) FROM shortener.shorten_many((SELECT array_agg(" . url_sql('i') . ") FROM generate_series($first, $last) i))");
	}
	return;
}

heading('links');
fill(1, 100_000);
sql('VACUUM ANALYZE shortener.link');

# Every client makes URLs of its own, in either way.
my $run = 0;
sub new_urls { $run++; return "'https://new.example/$run/' || :client_id || '/' || :n"; }
my $count = "\\set n :n + 1\n";
compare(
	'shorten of new URLs / prepared INSERT, 8 clients',
	unit => '/s', goal => '>= 0.8',
	ours => sub {
		my $url = new_urls();
		return pgbench("$count SELECT shortener.shorten($url);", clients => 8, protocol => 'prepared', seconds => $seconds, define => ['n=0'])->{tps};
	},
	reference => sub {
		my $url = new_urls();
		# What the statement inside shorten gets as parameters.
		return pgbench("$count INSERT INTO shortener.link (workspace_id, short_code, original_url, url_digest, redirect_status)"
			  . " VALUES (1, 'r$run-' || :client_id || '-' || :n, $url, substr(sha256(($url)::bytea), 1, 11), 302) ON CONFLICT DO NOTHING;",
			clients => 8, protocol => 'prepared', seconds => $seconds, define => ['n=0'])->{tps};
	});

my $pick = "\\set n random(1, 100000)\n";
my $known_url = url_sql(':n');
compare(
	'shorten of known URLs / prepared point SELECT, 8 clients',
	unit => '/s', goal => '>= 0.7',
	ours => sub {
		return pgbench("$pick SELECT shortener.shorten($known_url);", clients => 8, protocol => 'prepared', seconds => $seconds, define => ['n=0'])->{tps};
	},
	reference => sub {
		return pgbench("$pick SELECT short_code FROM shortener.link WHERE workspace_id = 1 AND url_digest = substr(sha256(($known_url)::bytea), 1, 11) AND deleted_at IS NULL;",
			clients => 8, protocol => 'prepared', seconds => $seconds, define => ['n=0'])->{tps};
	});

my $batch = 0;
compare(
	'shorten_many, 100,000 new in arrays of 1,000 / INSERT SELECT',
	unit => '/s', goal => '>= 0.5', rounds => 5,
	ours => sub {
		$batch++;
		return 1000 * pgbench("$count SELECT count(*) FROM shortener.shorten_many((SELECT array_agg(rpad('https://many.example/$batch/' || :n || '/' || i, 100, 'x')) FROM generate_series(1, 1000) i));",
			transactions => 100, define => ['n=0'])->{tps};
	},
	reference => sub {
		$batch++;
		return 1000 * pgbench("$count INSERT INTO shortener.link (workspace_id, short_code, original_url, url_digest, redirect_status)"
			  . " SELECT 1, 'b$batch-' || :n || '-' || i, rpad('https://many.example/$batch/' || :n || '/' || i, 100, 'x'), substr(sha256(('$batch/' || :n || '/' || i)::bytea), 1, 11), 302 FROM generate_series(1, 1000) i;",
			transactions => 100, define => ['n=0'])->{tps};
	});

my @codes = split /\n/, sql("SELECT short_code FROM shortener.link WHERE original_url LIKE 'https://example.com/%' ORDER BY random() LIMIT 64");
compare(
	'resolve / prepared SELECT on the unique index, 8 clients',
	unit => '/s', goal => '>= 0.9',
	ours => sub { return pgbench("SELECT * FROM shortener.resolve('$codes[0]');", clients => 8, protocol => 'prepared', seconds => $seconds, define => ['n=0'])->{tps} },
	reference => sub {
		return pgbench("SELECT redirect_status, original_url, id, expires_at FROM shortener.link WHERE workspace_id = 1 AND short_code = '$codes[0]';",
			clients => 8, protocol => 'prepared', seconds => $seconds, define => ['n=0'])->{tps};
	});
my $codes = join ',', @codes;
compare(
	'resolve_many of 64 / resolve, look-ups, 8 clients',
	unit => '/s', goal => '>= 3',
	ours => sub { return 64 * pgbench("SELECT * FROM shortener.resolve_many('{$codes}');", clients => 8, protocol => 'prepared', seconds => $seconds, define => ['n=0'])->{tps} },
	reference => sub { return pgbench("SELECT * FROM shortener.resolve('$codes[0]');", clients => 8, protocol => 'prepared', seconds => $seconds, define => ['n=0'])->{tps} });

# Size, and cost by size.
my $resolve_cost = sub { my ($codes) = @_; return sub { return pgbench("SELECT count(location) FROM unnest('{$codes}'::text[]) c, shortener.resolve(c);", protocol => 'prepared', seconds => $seconds)->{ms} } };
sql('TRUNCATE shortener.link');
fill(1, 100_000);
sql('VACUUM ANALYZE shortener.link');
my $small = $resolve_cost->(join ',', split /\n/, sql('SELECT short_code FROM shortener.link ORDER BY random() LIMIT 1000'));
my $small_ms = median(map { $small->() } 1 .. 3);
fill(100_001, $million);
sql('VACUUM ANALYZE shortener.link');
my ($bytes) = sql("SELECT pg_total_relation_size('shortener.link')::float / count(*) FROM shortener.link");
compare("bytes a link at $million links of 100 characters / 300", unit => 'B', goal => '<= 1', rounds => 1, ours => sub { $bytes }, reference => sub { 300 });
my $large_links = $ENV{BENCH_MANY_LINKS} // 10_000_000;
fill($million + 1, $large_links);
sql('VACUUM ANALYZE shortener.link');
my $large = $resolve_cost->(join ',', split /\n/, sql('SELECT short_code FROM shortener.link ORDER BY random() LIMIT 1000'));
compare("resolve at $large_links links / at 100,000", unit => 'ms', goal => '<= 1.5', rounds => 3, ours => $large, reference => sub { $small_ms });
