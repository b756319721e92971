# The code generators against what Postgres has built in, and against PL/pgSQL.
use strict;
use warnings;

use Bench;

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
CREATE TABLE numbers AS SELECT i * 1000003 AS i FROM generate_series(1, 1000000) i;
VACUUM ANALYZE numbers;
SQL

# Milliseconds of one statement over a million rows, on one core.
sub over_a_million
{
	my ($expression, $rows) = @_;
	$rows //= 1_000_000;
	return sub {
		return pgbench("SET max_parallel_workers_per_gather = 0;\nSELECT count($expression) FROM (SELECT i FROM numbers LIMIT $rows) n;",
			transactions => $rows < 1_000_000 ? 1 : 3)->{ms};
	};
}

heading('codes');
compare(
	'base62_encode(i) / i::text, 1 M rows',
	unit => 'ms',
	goal => '<= 1.1',
	ours => over_a_million('shortener.base62_encode(i)'),
	reference => over_a_million('i::text'));
compare(
	'PL/pgSQL / base62_encode(i), 100 k rows',
	unit => 'ms',
	goal => '>= 50',
	ours => over_a_million('plpgsql_base62(i)', 100_000),
	reference => over_a_million('shortener.base62_encode(i)', 100_000));
compare(
	'snowflake_id() / nextval, 1 M rows',
	unit => 'ms',
	goal => '<= 1.5',
	ours => over_a_million('shortener.snowflake_id()'),
	reference => over_a_million("nextval('bench_sequence')"));
