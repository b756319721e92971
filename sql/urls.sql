-- URLs: what browsers make of them, and when two count as the same.

CREATE FUNCTION canonical_url(url text) RETURNS text
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'shortener_canonical_url';
COMMENT ON FUNCTION canonical_url(text) IS
    'href that a browser computes for an absolute http or https URL; an error names the reason for anything else';

CREATE FUNCTION is_url(url text) RETURNS boolean
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'shortener_is_url';
COMMENT ON FUNCTION is_url(text) IS 'whether canonical_url accepts the text';

CREATE FUNCTION normalize_url(
    url text,
    rules text[] DEFAULT '{sort_query,strip_tracking,strip_trailing_slash,unify_scheme}'
) RETURNS text
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'shortener_normalize_url';
COMMENT ON FUNCTION normalize_url(text, text[]) IS
    'key by which two URLs count as the same: the canonical URL changed by the rules sort_query, strip_tracking, strip_trailing_slash, unify_scheme';

CREATE FUNCTION url_parameter(url text, name text) RETURNS text
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'shortener_url_parameter';
COMMENT ON FUNCTION url_parameter(text, text) IS
    'first value of that name in the query of a canonical URL, decoded, cut at 100 bytes; NULL if there is none or it is empty';
