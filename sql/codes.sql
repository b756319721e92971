-- Codes: Base62 numbers and snowflake ids.

CREATE FUNCTION base62_encode(value bigint) RETURNS text
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'shortener_base62_encode';
COMMENT ON FUNCTION base62_encode(bigint) IS
    'Base62 code of a number from 0 to 9223372036854775807, alphabet 0-9a-zA-Z';

CREATE FUNCTION base62_decode(code text) RETURNS bigint
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'shortener_base62_decode';
COMMENT ON FUNCTION base62_decode(text) IS
    'number of a Base62 code; rejects whatever base62_encode cannot produce';

CREATE FUNCTION snowflake_id() RETURNS bigint
    LANGUAGE c VOLATILE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'shortener_snowflake_id';
COMMENT ON FUNCTION snowflake_id() IS
    'new unique id that increases with time: 41 bits of milliseconds since 2024-01-01 UTC, 10 bits of shortener.node_id, 12 bits of sequence';

CREATE FUNCTION snowflake_time(id bigint) RETURNS timestamptz
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'shortener_snowflake_time';
COMMENT ON FUNCTION snowflake_time(bigint) IS 'when a snowflake id was made, to the millisecond';

CREATE FUNCTION snowflake_node(id bigint) RETURNS integer
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'shortener_snowflake_node';
COMMENT ON FUNCTION snowflake_node(bigint) IS 'the node that made a snowflake id: shortener.node_id of that server';
