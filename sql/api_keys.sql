-- API keys: made, listed, revoked.

CREATE FUNCTION random_api_key() RETURNS text
    LANGUAGE c VOLATILE PARALLEL SAFE
    AS 'MODULE_PATHNAME', 'shortener_random_api_key';
COMMENT ON FUNCTION random_api_key() IS 'sk_ and 43 Base62 characters, 256 bits from a strong random source';

CREATE FUNCTION create_api_key(
    name text,
    scopes text[] = '{links:read,links:write}',
    expires_at timestamptz = NULL,
    rate_limit integer = 1000,
    workspace text = NULL,
    user_email text = NULL) RETURNS text
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    home constant integer := shortener.workspace_id(workspace);
    key constant text := shortener.random_api_key();
    shown constant text := left(key, 11);
    hashed constant bytea := sha256(convert_to(key, 'UTF8')); -- the statements below do not see the key
    owner_id bigint;
    new_id bigint;
BEGIN
    IF NOT scopes <@ '{links:read,links:write,analytics:read,admin}' OR coalesce(cardinality(scopes), 0) = 0
        OR array_position(scopes, NULL) IS NOT NULL
    THEN
        RAISE 'scopes must be some of links:read, links:write, analytics:read and admin'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF NOT scopes <@ shortener.current_scopes() THEN
        RAISE 'an API key cannot create one with more scopes than its own' USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF expires_at <= now() THEN
        RAISE 'expires_at "%" is in the past', expires_at USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF rate_limit < 1 THEN
        RAISE 'rate_limit must be positive' USING ERRCODE = 'invalid_parameter_value',
            HINT = 'NULL means without limit.';
    END IF;
    IF user_email IS NOT NULL THEN
        owner_id := shortener.user_id(user_email, home);
    END IF;
    INSERT INTO shortener.api_key AS k (workspace_id, user_id, prefix, digest, name, scopes, rate_limit, expires_at)
        VALUES (home, owner_id, shown, hashed, create_api_key.name, create_api_key.scopes,
                create_api_key.rate_limit, nullif(create_api_key.expires_at, 'infinity'))
        RETURNING k.id INTO new_id;
    INSERT INTO shortener.api_key_use (workspace_id, key_id) VALUES (home, new_id);
    RETURN key;
END $$;
COMMENT ON FUNCTION create_api_key(text, text[], timestamptz, integer, text, text) IS
    'creates an API key and returns it; it cannot be read again, because only its SHA-256 is stored; rate_limit is in uses per hour, NULL means without limit';

CREATE FUNCTION revoke_api_key(prefix text) RETURNS boolean
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM shortener.require_install();
    PERFORM shortener.require_scope('admin');
    UPDATE shortener.api_key k SET revoked_at = now() WHERE k.prefix = revoke_api_key.prefix AND k.revoked_at IS NULL;
    RETURN FOUND;
END $$;
COMMENT ON FUNCTION revoke_api_key(text) IS
    'revokes the API key with that display prefix; false when there is none or it was revoked before';

CREATE FUNCTION remove_expired_api_keys(older_than interval = '30 days') RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    removed bigint;
BEGIN
    PERFORM shortener.require_install();
    PERFORM shortener.lock_for_job('{api_key}'::text[]);
    DELETE FROM shortener.api_key k WHERE least(k.expires_at, k.revoked_at) < now() - older_than;
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN removed;
END $$;
COMMENT ON FUNCTION remove_expired_api_keys(interval) IS
    'removes API keys that expired or were revoked longer ago than that, and returns their number; a job calls it';

REVOKE EXECUTE ON FUNCTION create_api_key(text, text[], timestamptz, integer, text, text), revoke_api_key(text),
    remove_expired_api_keys(interval) FROM PUBLIC;
