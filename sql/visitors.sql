-- Visitors: what can be known of an address and of a User-Agent, and what may be stored of them.

CREATE FUNCTION parse_user_agent(
    user_agent text,
    OUT device_type text, OUT browser text, OUT browser_version text, OUT os text, OUT os_version text
)
    LANGUAGE c STABLE STRICT PARALLEL RESTRICTED COST 1000
    AS 'MODULE_PATHNAME', 'shortener_parse_user_agent';
COMMENT ON FUNCTION parse_user_agent(text) IS
    'what a User-Agent says: device type (desktop, mobile, tablet, bot, unknown), browser and operating system; restricted, because each process that calls it first reads shortener.user_agent_regexes';

CREATE FUNCTION anonymize_ip(ip inet) RETURNS inet
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'shortener_anonymize_ip';
COMMENT ON FUNCTION anonymize_ip(inet) IS
    'what may be stored of an address: IPv4 with its last octet zeroed, IPv6 with its last 80 bits zeroed; an IPv4 address mapped into IPv6 becomes IPv4';

CREATE FUNCTION geo_lookup(ip inet, OUT country text, OUT city text)
    LANGUAGE c STABLE STRICT PARALLEL SAFE COST 10
    AS 'MODULE_PATHNAME', 'shortener_geo_lookup';
COMMENT ON FUNCTION geo_lookup(inet) IS
    'ISO code of the country and English name of the city of an address, from shortener.geoip_database; NULL if not known';

CREATE FUNCTION visitor_hash(salt bytea, ip inet, user_agent text) RETURNS bigint
    LANGUAGE c IMMUTABLE PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'shortener_visitor_hash';
COMMENT ON FUNCTION visitor_hash(bytea, inet, text) IS
    'SipHash of address and User-Agent under a salt of 16 bytes, by which visitors are told apart but not identified';
