-- Before anything is made: whoever may create a schema could have made this one beforehand, and would own what the
-- functions below look names up in.
DO $$
DECLARE
    owner pg_catalog.oid;
BEGIN
    SELECT n.nspowner INTO owner FROM pg_catalog.pg_namespace n
        WHERE n.nspname OPERATOR(pg_catalog.=) 'shortener'::pg_catalog.name;
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.oid OPERATOR(pg_catalog.=) owner
            AND (r.rolsuper OR r.rolname OPERATOR(pg_catalog.=) current_user)) THEN
        RAISE 'schema shortener belongs to another role, %', pg_catalog.pg_get_userbyid(owner) USING
            ERRCODE = 'insufficient_privilege',
            DETAIL = 'It must belong to whoever creates the extension, or to a superuser.',
            HINT = 'Drop the schema, or change its owner after you have looked at what is in it.';
    END IF;
END $$;
