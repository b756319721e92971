-- Tags of links.

CREATE FUNCTION tag_link(code text, tag text, workspace text = NULL) RETURNS boolean
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    home constant integer := shortener.workspace_id(workspace);
BEGIN
    PERFORM shortener.require_scope('links:write');
    IF tag IS NULL OR length(tag) > 50 OR tag !~ '^[^[:cntrl:]]+$' THEN
        RAISE 'a tag must have 1 to 50 characters and no control characters' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO shortener.link_tag (workspace_id, link_id, tag)
        SELECT l.workspace_id, l.id, tag_link.tag FROM shortener.link l
        WHERE l.workspace_id = home AND l.short_code = code AND l.deleted_at IS NULL
        ON CONFLICT DO NOTHING;
    RETURN FOUND;
END $$;
COMMENT ON FUNCTION tag_link(text, text, text) IS 'adds a tag to a link; false when it has the tag, or when there is no such link';

CREATE FUNCTION untag_link(code text, tag text, workspace text = NULL) RETURNS boolean
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    home constant integer := shortener.workspace_id(workspace);
BEGIN
    PERFORM shortener.require_scope('links:write');
    DELETE FROM shortener.link_tag t USING shortener.link l
        WHERE l.workspace_id = home AND l.short_code = code
          AND t.workspace_id = home AND t.link_id = l.id AND t.tag = untag_link.tag;
    RETURN FOUND;
END $$;
COMMENT ON FUNCTION untag_link(text, text, text) IS 'removes a tag from a link; false when it does not have the tag';

CREATE FUNCTION link_tags(code text, workspace text = NULL) RETURNS text[]
    LANGUAGE plpgsql STABLE PARALLEL RESTRICTED
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    home constant integer := shortener.workspace_id(workspace);
BEGIN
    RETURN ARRAY(SELECT t.tag::text FROM shortener.link l JOIN shortener.link_tag t ON t.workspace_id = home AND t.link_id = l.id
                 WHERE l.workspace_id = home AND l.short_code = code AND l.deleted_at IS NULL ORDER BY t.tag);
END $$;
COMMENT ON FUNCTION link_tags(text, text) IS 'tags of a link, sorted';

CREATE FUNCTION remove_unused_tags() RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    removed bigint;
BEGIN
    PERFORM shortener.require_install();
    PERFORM shortener.lock_for_job('{link_tag}'::text[]);
    DELETE FROM shortener.link_tag t
        WHERE NOT EXISTS (SELECT FROM shortener.link l WHERE l.workspace_id = t.workspace_id AND l.id = t.link_id);
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN removed;
END $$;
COMMENT ON FUNCTION remove_unused_tags() IS 'removes the tags of links that are gone, and returns their number; a job calls it';
REVOKE EXECUTE ON FUNCTION remove_unused_tags() FROM PUBLIC;
