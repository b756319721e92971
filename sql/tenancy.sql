-- Changing, deleting and restoring workspaces.

CREATE FUNCTION update_workspace(
    slug text,
    new_slug text = NULL,
    name text = NULL,
    code_style text = NULL,
    rules text[] = NULL,
    default_ttl interval = NULL,
    redirect_status integer = NULL) RETURNS boolean
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    violated text;
BEGIN
    PERFORM shortener.require_install();
    PERFORM shortener.require_scope('admin');
    IF rules IS NOT NULL THEN
        PERFORM shortener.normalize_url('http://example.com/', rules); -- refuses unknown rules
    END IF;
    BEGIN
        -- Two statements, because an admin may change all but the slug: a slug that is taken would tell of another tenant.
        UPDATE shortener.workspace w
            SET name = coalesce(update_workspace.name, w.name),
                code_style = coalesce(update_workspace.code_style, w.code_style),
                rules = coalesce(update_workspace.rules, w.rules),
                default_ttl = CASE WHEN update_workspace.default_ttl IS NULL THEN w.default_ttl
                                   ELSE nullif(update_workspace.default_ttl, '0') END,
                redirect_status = coalesce(update_workspace.redirect_status, w.redirect_status)
            WHERE w.slug = update_workspace.slug;
        IF NOT FOUND THEN
            RETURN false;
        END IF;
        IF new_slug <> slug THEN
            UPDATE shortener.workspace w SET slug = new_slug WHERE w.slug = update_workspace.slug;
        END IF;
    EXCEPTION WHEN check_violation OR unique_violation OR numeric_value_out_of_range THEN
        GET STACKED DIAGNOSTICS violated = CONSTRAINT_NAME;
        PERFORM shortener.raise_invalid_workspace(SQLSTATE, violated, coalesce(new_slug, slug), code_style, default_ttl, redirect_status);
    END;
    RETURN true;
END $$;
COMMENT ON FUNCTION update_workspace(text, text, text, text, text[], interval, integer) IS
    'changes what is not NULL; a default_ttl of 0 means that links do not expire; false when there is no such workspace';

CREATE FUNCTION delete_workspace(slug text) RETURNS boolean
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM shortener.require_install();
    UPDATE shortener.workspace w SET deleted_at = now() WHERE w.slug = delete_workspace.slug AND w.deleted_at IS NULL;
    RETURN FOUND;
END $$;
COMMENT ON FUNCTION delete_workspace(text) IS
    'makes all links of a workspace answer 410 at once, until restore_workspace; the slug stays taken; false when there is no such workspace';

CREATE FUNCTION restore_workspace(slug text) RETURNS boolean
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM shortener.require_install();
    UPDATE shortener.workspace w SET deleted_at = NULL WHERE w.slug = restore_workspace.slug AND w.deleted_at IS NOT NULL;
    RETURN FOUND;
END $$;
COMMENT ON FUNCTION restore_workspace(text) IS 'undoes delete_workspace; false when the workspace was not deleted';

REVOKE EXECUTE ON FUNCTION update_workspace(text, text, text, text, text[], interval, integer), delete_workspace(text),
    restore_workspace(text) FROM PUBLIC;
