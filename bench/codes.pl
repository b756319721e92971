# The code generators against what Postgres has built in, and against PL/pgSQL.
use strict;
use warnings;

use Bench;
use List::Util qw(max min);

sql(<<'SQL');
CREATE FUNCTION plpgsql_base62(value bigint) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE AS $$
DECLARE
    alphabet CONSTANT text := '0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ';
    code text := '';
BEGIN
    LOOP
        code := substr(alphabet, (value % 62)::int + 1, 1) || code;
        value := value / 62;
        EXIT WHEN value = 0;
    END LOOP;
    RETURN code;
END $$;
CREATE SEQUENCE bench_sequence;
CREATE TABLE numbers AS SELECT i * 1000003 AS i FROM generate_series(1::bigint, 1000000) i;
ANALYZE numbers;
SQL

# Milliseconds that the expression adds to reading so many rows, on one core.
sub cost_over
{
	my ($rows, $expression) = @_;
	my $statement = sub {
		my ($counted) = @_;
		return pgbench("SET max_parallel_workers_per_gather = 0;\nSELECT count($counted) FROM (SELECT i FROM numbers LIMIT $rows) n;",
			transactions => 3)->{ms};
	};
	# Of several, because a difference of two times that were disturbed says nothing, and can be negative.
	return sub {
		my ($with, $without) = map { my $counted = $_; min(map { $statement->($counted) } 1 .. 3) } $expression, 'i';
		return max($with - $without, 0.01);
	};
}

heading('codes');
compare(
	'base62_encode(i) / i::text, 1 M rows',
	unit => 'ms',
	goal => '<= 1.1',
	ours => cost_over(1_000_000, 'shortener.base62_encode(i)'),
	reference => cost_over(1_000_000, 'i::text'));
compare(
	'PL/pgSQL / base62_encode(i), 200 k rows',
	unit => 'ms',
	goal => '>= 50',
	ours => cost_over(200_000, 'plpgsql_base62(i)'),
	reference => cost_over(200_000, 'shortener.base62_encode(i)'));
compare(
	'snowflake_id() / nextval, 1 M rows',
	unit => 'ms',
	goal => '<= 1.5',
	ours => cost_over(1_000_000, 'shortener.snowflake_id()'),
	reference => cost_over(1_000_000, "nextval('bench_sequence')"));
