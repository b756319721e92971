-- Before anything is made: whoever may create a schema could have made this one beforehand, and would own what the
-- functions below look names up in.
DO $$
DECLARE
    owner pg_catalog.oid;
    stranger pg_catalog.text;
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
    -- Tables stay when the extension goes. Functions and types would be found where those of hll are meant.
    SELECT pg_catalog.pg_describe_object(d.classid, d.objid, 0) OPERATOR(pg_catalog.||) ' of role ' OPERATOR(pg_catalog.||) r.rolname::pg_catalog.text
        INTO stranger
        FROM pg_catalog.pg_depend d
        JOIN pg_catalog.pg_shdepend s ON s.classid OPERATOR(pg_catalog.=) d.classid AND s.objid OPERATOR(pg_catalog.=) d.objid
            AND s.deptype OPERATOR(pg_catalog.=) 'o'::pg_catalog."char"
            AND s.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_authid'::pg_catalog.regclass
            AND s.dbid OPERATOR(pg_catalog.=) (SELECT b.oid FROM pg_catalog.pg_database b
                                               WHERE b.datname OPERATOR(pg_catalog.=) pg_catalog.current_database())
        JOIN pg_catalog.pg_roles r ON r.oid OPERATOR(pg_catalog.=) s.refobjid
        LEFT JOIN pg_catalog.pg_class c ON d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
            AND c.oid OPERATOR(pg_catalog.=) d.objid
        WHERE d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_namespace'::pg_catalog.regclass
          AND d.refobjid OPERATOR(pg_catalog.=) 'shortener'::pg_catalog.regnamespace
          AND NOT r.rolsuper AND r.rolname OPERATOR(pg_catalog.<>) current_user
          AND d.classid OPERATOR(pg_catalog.<>) 'pg_catalog.pg_statistic_ext'::pg_catalog.regclass
          AND (c.oid IS NULL OR pg_catalog.starts_with(c.relname::pg_catalog.text, 'hll'::pg_catalog.text))
        LIMIT 1;
    IF FOUND THEN
        RAISE 'schema shortener contains %', stranger USING
            ERRCODE = 'insufficient_privilege',
            DETAIL = 'It may contain tables of another role, but nothing else that could run with the rights of those who use the extension.',
            HINT = 'Drop it, or move it to another schema.';
    END IF;
END $$;
