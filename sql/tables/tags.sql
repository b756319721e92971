-- Tags of links.

CREATE PROCEDURE create_tag_tables()
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    -- No foreign key to link: a check for each link that a cleanup removes would slow it down. Neither ids nor codes
    -- are given out again, so the tags of a link that is gone are of no link, until a job removes them.
    CREATE TABLE shortener.link_tag (
        workspace_id integer NOT NULL REFERENCES shortener.workspace ON DELETE CASCADE,
        link_id bigint NOT NULL,
        tag text COLLATE "C" NOT NULL CHECK (tag ~ '^[^[:cntrl:]]{1,50}$'),
        PRIMARY KEY (workspace_id, tag, link_id)
    );
    CREATE INDEX link_tag_link ON shortener.link_tag (workspace_id, link_id);
    COMMENT ON TABLE shortener.link_tag IS 'tags of links';
END $$;
COMMENT ON PROCEDURE create_tag_tables() IS 'step of install()';
REVOKE EXECUTE ON PROCEDURE create_tag_tables() FROM PUBLIC;
