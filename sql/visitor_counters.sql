-- Counters of distinct visitors, by hll. In which schema that extension is, is known only now: what is used of it later is
-- bound here. Exact up to 256, with a standard error of 0.4 % above that.

CREATE FUNCTION visitor_key(visitor bigint) RETURNS hll_hashval
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN visitor::hll_hashval;
COMMENT ON FUNCTION visitor_key(bigint) IS 'hash of a visitor as hll takes it';

CREATE AGGREGATE add_visitors(hll_hashval, integer, integer, bigint, integer) (
    SFUNC = hll_add_trans4, STYPE = internal, SSPACE = 131120, FINALFUNC = hll_pack);
COMMENT ON AGGREGATE add_visitors(hll_hashval, integer, integer, bigint, integer) IS 'hll_add_agg of hll, wherever it is';

CREATE AGGREGATE merge_visitors(hll) (
    SFUNC = hll_union_trans, STYPE = internal, FINALFUNC = hll_pack);
COMMENT ON AGGREGATE merge_visitors(hll) IS 'merges the distinct visitors of several counters; visitor_count() returns how many there are';

CREATE FUNCTION merge_two_visitors(a hll, b hll) RETURNS hll
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN coalesce(hll_union(a, b), a, b);
COMMENT ON FUNCTION merge_two_visitors(hll, hll) IS 'distinct visitors of two counters together; NULL is none';

CREATE FUNCTION visitor_count(visitors hll) RETURNS bigint
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN round(hll_cardinality(visitors))::bigint;
COMMENT ON FUNCTION visitor_count(hll) IS 'number of distinct visitors in a counter';
