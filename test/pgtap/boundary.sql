-- Failures inside C++ are ordinary SQL errors, and the session goes on.
BEGIN;
SELECT plan(10);

CREATE FUNCTION throw_exception() RETURNS bigint LANGUAGE c AS :'boundary', 'throw_exception';
CREATE FUNCTION throw_nonsense() RETURNS bigint LANGUAGE c AS :'boundary', 'throw_nonsense';
CREATE FUNCTION throw_bad_alloc() RETURNS bigint LANGUAGE c AS :'boundary', 'throw_bad_alloc';
CREATE FUNCTION postgres_error() RETURNS bigint LANGUAGE c AS :'boundary', 'postgres_error';
CREATE FUNCTION throw_over_stacks() RETURNS bigint LANGUAGE c AS :'boundary', 'throw_over_stacks';
CREATE FUNCTION call_pg_result() RETURNS bigint LANGUAGE c AS :'boundary', 'call_pg_result';
CREATE FUNCTION owners_alive() RETURNS int LANGUAGE c AS :'boundary', 'owners_alive';

SELECT throws_ok('SELECT throw_exception()', 'XX000', 'thrown on purpose', 'a C++ exception becomes an SQL error');
SELECT throws_ok('SELECT throw_nonsense()', 'XX000', 'unknown C++ exception', 'so does what is no std::exception');
SELECT throws_ok('SELECT throw_bad_alloc()', '53200', 'out of memory', 'bad_alloc keeps its SQLSTATE');
SELECT throws_ok('SELECT postgres_error()', '22012', 'raised on purpose', 'a Postgres error keeps its SQLSTATE');
SELECT throws_ok('SELECT throw_over_stacks()', 'XX000', 'thrown over stacks', 'the error stacks are restored');

CREATE FUNCTION detail_and_hint() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    the_detail text;
    the_hint text;
BEGIN
    PERFORM postgres_error();
EXCEPTION WHEN division_by_zero THEN
    GET STACKED DIAGNOSTICS the_detail = PG_EXCEPTION_DETAIL, the_hint = PG_EXCEPTION_HINT;
    RETURN the_detail || ', ' || the_hint;
END $$;
SELECT is(detail_and_hint(), 'the detail, the hint', 'detail and hint pass through C++');

SELECT is(call_pg_result(), 42::bigint, 'call_pg gives back its result');
SELECT is(owners_alive(), 0, 'every destructor ran');
SELECT throws_ok('SELECT 1/0', '22012', NULL, 'Postgres still raises its own errors');
SELECT is((SELECT count(*) FROM generate_series(1, 1000)), 1000::bigint, 'the session goes on');

SELECT * FROM finish();
ROLLBACK;
