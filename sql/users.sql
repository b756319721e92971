-- Users of workspaces, with or without a password, with or without an identity provider.

CREATE FUNCTION check_password(workspace_id integer, user_id bigint, password text) RETURNS boolean
    LANGUAGE c VOLATILE PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'shortener_check_password';
COMMENT ON FUNCTION check_password(integer, bigint, text) IS
    'whether the password is that of the user; takes as long for a user who does not exist';

CREATE FUNCTION hash_password(password text) RETURNS text
    LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
    AS 'MODULE_PATHNAME', 'shortener_hash_password';
COMMENT ON FUNCTION hash_password(text) IS 'bcrypt hash of a password, through extension pgcrypto';

CREATE FUNCTION user_id(email text, workspace_id integer) RETURNS bigint
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    found bigint;
BEGIN
    PERFORM shortener.require_scope('admin');
    SELECT u.id INTO found FROM shortener.workspace_user u
        WHERE u.workspace_id = user_id.workspace_id AND u.email = lower(user_id.email COLLATE "C") AND u.deleted_at IS NULL;
    IF found IS NULL THEN
        RAISE 'user "%" does not exist', left(email, 64) USING ERRCODE = 'undefined_object';
    END IF;
    RETURN found;
END $$;
COMMENT ON FUNCTION user_id(text, integer) IS 'id of a user by email address';

CREATE FUNCTION check_user(email text, role text) RETURNS void
    LANGUAGE plpgsql IMMUTABLE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF email IS NULL OR octet_length(email) > 4 * 320 OR length(email) > 320 OR email !~ '^[^[:space:]@]+@[^[:space:]@]+$' THEN
        RAISE '"%" is not a valid email address', left(email, 64) USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF role NOT IN ('admin', 'member', 'viewer') THEN
        RAISE '"%" is not a valid role of a user', left(role, 64) USING ERRCODE = 'invalid_parameter_value',
            HINT = 'The roles are admin, member and viewer.';
    END IF;
END $$;
COMMENT ON FUNCTION check_user(text, text) IS 'refuses what cannot be the email address or the role of a user';

CREATE FUNCTION create_user(email text, name text = NULL, role text = 'member', subject text = NULL, workspace text = NULL)
    RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    home constant integer := shortener.workspace_id(workspace);
    new_id bigint;
BEGIN
    PERFORM shortener.check_user(email, role);
    INSERT INTO shortener.workspace_user AS u (workspace_id, email, name, role, subject)
        VALUES (home, lower(create_user.email COLLATE "C"), create_user.name, coalesce(create_user.role, 'member'), create_user.subject)
        RETURNING u.id INTO new_id;
    RETURN new_id;
EXCEPTION WHEN unique_violation THEN
    RAISE 'user "%" already exists', left(email, 64) USING ERRCODE = 'unique_violation';
END $$;
COMMENT ON FUNCTION create_user(text, text, text, text, text) IS
    'creates a user of the workspace and returns the id; subject is the name of the user at an identity provider';

CREATE FUNCTION sync_user(subject text, email text, name text = NULL, role text = NULL, workspace text = NULL) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    home constant integer := shortener.workspace_id(workspace);
    synced bigint;
BEGIN
    IF subject IS NULL OR length(subject) NOT BETWEEN 1 AND 255 THEN
        RAISE 'subject must have 1 to 255 characters' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM shortener.check_user(email, role);
    FOR attempt IN 1 .. 2 LOOP
        BEGIN
            INSERT INTO shortener.workspace_user AS u (workspace_id, subject, email, name, role, last_sync_at)
                VALUES (home, sync_user.subject, lower(sync_user.email COLLATE "C"), sync_user.name, coalesce(sync_user.role, 'member'), now())
                ON CONFLICT ON CONSTRAINT workspace_user_subject DO UPDATE
                    SET email = excluded.email, name = coalesce(excluded.name, u.name), role = coalesce(sync_user.role, u.role),
                        last_sync_at = now()
                RETURNING u.id INTO synced;
            RETURN synced;
        EXCEPTION WHEN unique_violation THEN
            NULL; -- another session may have made the same user, whom the second attempt finds
        END;
    END LOOP;
    RAISE 'email address "%" belongs to another user', left(email, 64) USING ERRCODE = 'unique_violation';
END $$;
COMMENT ON FUNCTION sync_user(text, text, text, text, text) IS
    'creates or updates the user whom an identity provider calls by that subject, and returns the id; NULL leaves name or role as it is';

CREATE FUNCTION set_password(email text, password text, workspace text = NULL) RETURNS void
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    home constant integer := shortener.workspace_id(workspace);
    whose constant bigint := shortener.user_id(email, home);
    new_hash constant text := shortener.hash_password(password);
BEGIN
    IF new_hash IS NULL THEN
        DELETE FROM shortener.user_password p WHERE p.workspace_id = home AND p.user_id = whose;
    ELSE
        INSERT INTO shortener.user_password AS p (workspace_id, user_id, hash) VALUES (home, whose, new_hash)
            ON CONFLICT ON CONSTRAINT user_password_pkey DO UPDATE SET hash = excluded.hash, changed_at = excluded.changed_at;
    END IF;
END $$;
COMMENT ON FUNCTION set_password(text, text, text) IS 'sets the password of a user, of 1 to 72 bytes; NULL removes it';

CREATE FUNCTION verify_password(email text, password text, workspace text = NULL) RETURNS boolean
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    home constant integer := shortener.workspace_id(workspace);
    whose bigint;
BEGIN
    PERFORM shortener.require_scope('admin');
    SELECT u.id INTO whose FROM shortener.workspace_user u
        WHERE u.workspace_id = home AND u.email = lower(verify_password.email COLLATE "C") AND u.status = 'active';
    IF NOT shortener.check_password(home, whose, password) THEN
        RETURN false;
    END IF;
    UPDATE shortener.workspace_user u SET last_login_at = now() WHERE u.workspace_id = home AND u.id = whose;
    RETURN true;
END $$;
COMMENT ON FUNCTION verify_password(text, text, text) IS
    'whether the password is that of an active user; if so, the login is recorded; takes as long for an unknown user';

CREATE FUNCTION set_user_status(email text, status text, workspace text = NULL) RETURNS boolean
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    home constant integer := shortener.workspace_id(workspace);
BEGIN
    IF status IS NULL OR status NOT IN ('active', 'suspended') THEN
        RAISE 'status must be active or suspended' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    UPDATE shortener.workspace_user u SET status = set_user_status.status
        WHERE u.workspace_id = home AND u.id = shortener.user_id(set_user_status.email, home) AND u.status <> set_user_status.status;
    RETURN FOUND;
END $$;
COMMENT ON FUNCTION set_user_status(text, text, text) IS
    'makes a user active or suspended; password and API keys of a suspended user are refused; false when nothing changed';

CREATE FUNCTION delete_user(
    email text, links text = 'keep', workspace text = NULL,
    OUT user_id bigint, OUT api_keys_removed bigint, OUT links_kept bigint, OUT links_disabled bigint, OUT links_deleted bigint)
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    home constant integer := shortener.workspace_id(workspace);
BEGIN
    IF links IS NULL OR links NOT IN ('keep', 'disable', 'delete') THEN
        RAISE 'links must be keep, disable or delete' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    user_id := shortener.user_id(email, home);
    links_kept := 0; links_disabled := 0; links_deleted := 0;
    DELETE FROM shortener.user_password p WHERE p.workspace_id = home AND p.user_id = delete_user.user_id;
    DELETE FROM shortener.api_key k WHERE k.workspace_id = home AND k.user_id = delete_user.user_id;
    GET DIAGNOSTICS api_keys_removed = ROW_COUNT;
    CASE links
        WHEN 'keep' THEN
            SELECT count(*) INTO links_kept FROM shortener.link l
                WHERE l.workspace_id = home AND l.created_by = 'user:' || delete_user.user_id AND l.deleted_at IS NULL;
        WHEN 'disable' THEN
            UPDATE shortener.link l SET is_active = false
                WHERE l.workspace_id = home AND l.created_by = 'user:' || delete_user.user_id AND l.deleted_at IS NULL AND l.is_active;
            GET DIAGNOSTICS links_disabled = ROW_COUNT;
        WHEN 'delete' THEN
            UPDATE shortener.link l SET deleted_at = now()
                WHERE l.workspace_id = home AND l.created_by = 'user:' || delete_user.user_id AND l.deleted_at IS NULL;
            GET DIAGNOSTICS links_deleted = ROW_COUNT;
    END CASE;
    UPDATE shortener.workspace_user u
        SET email = 'deleted-' || u.id || '@invalid', name = NULL, subject = NULL, status = 'suspended', deleted_at = now()
        WHERE u.workspace_id = home AND u.id = delete_user.user_id;
END $$;
COMMENT ON FUNCTION delete_user(text, text, text) IS
    'forgets name and email address of a user, removes the API keys, keeps, disables or deletes the links, and reports what was done';

REVOKE EXECUTE ON FUNCTION check_password(integer, bigint, text), hash_password(text), user_id(text, integer),
    create_user(text, text, text, text, text), sync_user(text, text, text, text, text), set_password(text, text, text),
    verify_password(text, text, text), set_user_status(text, text, text), delete_user(text, text, text) FROM PUBLIC;
