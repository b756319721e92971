# The URL functions against the URL class of Node.js, in nanoseconds for each of 100,000 realistic URLs.
use strict;
use warnings;

use Bench;
use File::Temp;

use constant URLS => 100_000;

# Articles, shops with tracking, searches, videos, files with ports, and one in fifty with an international host.
sql(<<'SQL');
CREATE TABLE urls AS SELECT CASE
    WHEN i % 50 = 0 THEN format('https://www.bücher-%s.example/straße/%s', i % 1000, i)
    WHEN i % 5 = 0 THEN format('https://www.news-%s.example/2024/%s/%s/a-rather-long-headline-about-something-%s.html', i % 700, i % 12 + 1, i % 28 + 1, i)
    WHEN i % 5 = 1 THEN format('https://shop%s.example.com/category/product-%s/?utm_source=newsletter&utm_medium=email&color=blue&size=%s&ref=%s', i % 300, i, i % 9, md5(i::text))
    WHEN i % 5 = 2 THEN format('HTTPS://Search.Example.org/search?q=how+to+%s&hl=en&start=%s#results', md5(i::text), i % 100)
    WHEN i % 5 = 3 THEN format('https://video.example.net/watch?v=%s&t=%ss&list=%s', substr(md5(i::text), 1, 11), i % 3600, md5((i / 10)::text))
    ELSE format('http://files-%s.example.com:8080/a/b/../c/report %s.pdf', i % 40, i)
    END AS url
    FROM generate_series(1, 100000) i;
ANALYZE urls;
SQL

# Nanoseconds that the expression adds to reading each row, on one core.
sub cost
{
	my ($expression) = @_;
	my $statement = sub {
		my ($counted) = @_;
		return pgbench("SET max_parallel_workers_per_gather = 0;\nSELECT count($counted) FROM urls;", transactions => 10)->{ms};
	};
	return sub { return ($statement->($expression) - $statement->('url')) * 1e6 / URLS };
}

# The best that Node.js does after warming up, its own start left out.
my $list = File::Temp->new;
print $list sql('SELECT url FROM urls');
close $list;

sub node
{
	my $script = <<'JAVASCRIPT';
		const urls = require('fs').readFileSync(process.argv[1], 'utf8').split('\n');
		let length = 0, best = Infinity;
		for (let round = 0; round < 10; round++) {
			const start = process.hrtime.bigint();
			for (const url of urls) length += new URL(url).href.length;
			best = Math.min(best, Number(process.hrtime.bigint() - start) / urls.length);
		}
		console.log(length > 0 ? best : NaN);
JAVASCRIPT
	open(my $output, '-|', 'node', '-e', $script, $list->filename) or die "node: $!";
	my $nanoseconds = <$output>;
	close $output or die 'node failed';
	return $nanoseconds;
}

heading('urls');
compare(
	'canonical_url(url) / new URL(url).href in Node.js, each URL',
	unit => 'ns',
	goal => '<= 1',
	ours => cost('shortener.canonical_url(url)'),
	reference => \&node);
compare(
	'normalize_url(url) / canonical_url(url), each URL',
	unit => 'ns',
	goal => '<= 2',
	ours => cost('shortener.normalize_url(url)'),
	reference => cost('shortener.canonical_url(url)'));
