-- Partitions by month, of clicks and of the audit.

-- A partition is known by its name: those that somebody attached under other names are left alone.
CREATE FUNCTION month_partitions(parent name) RETURNS TABLE (partition name, month date)
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN QUERY
        SELECT c.relname, to_date(right(c.relname, 8), '"y"YYYY"m"MM')
        FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = format('shortener.%I', month_partitions.parent)::regclass AND NOT i.inhdetachpending
          AND starts_with(c.relname, month_partitions.parent || '_y') AND right(c.relname, 8) ~ '^y\d{4}m\d\d$'
        ORDER BY 2;
END $$;
COMMENT ON FUNCTION month_partitions(name) IS 'partitions of a table that is partitioned by month, with the month of each (UTC)';

CREATE FUNCTION make_month_partition(parent name, month date) RETURNS void
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    wanted constant name := parent || to_char(month, '"_y"YYYY"m"MM');
BEGIN
    IF EXISTS (SELECT FROM shortener.month_partitions(parent) p WHERE p.partition = wanted) THEN
        RETURN;
    END IF;
    -- ATTACH lets others read and write the table meanwhile, CREATE TABLE ... PARTITION OF does not. Raw clicks and
    -- the audit are only appended; counters are updated, on the same page if it has room.
    EXECUTE format('CREATE TABLE shortener.%I (LIKE shortener.%I INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING STORAGE) WITH (%s)',
        wanted, parent, CASE WHEN parent IN ('click_event', 'link_audit') THEN 'autovacuum_vacuum_insert_scale_factor = 0.05' ELSE 'fillfactor = 80' END);
    EXECUTE format('ALTER TABLE shortener.%I ENABLE ROW LEVEL SECURITY', wanted); -- not to be read but through the table
    EXECUTE format('ALTER TABLE shortener.%I ATTACH PARTITION shortener.%I FOR VALUES FROM (%L) TO (%L)', parent, wanted,
        to_char(month, 'YYYY-MM-"01 00:00+00"'), to_char(month + interval '1 month', 'YYYY-MM-"01 00:00+00"'));
END $$;
COMMENT ON FUNCTION make_month_partition(name, date) IS 'makes the partition of a month, if it is not there';

REVOKE EXECUTE ON FUNCTION make_month_partition(name, date) FROM PUBLIC;
