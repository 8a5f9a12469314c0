-- needs: 0027
-- Size of each btree index of the schema public, and the size it would have after a reindex: an estimate from the
-- statistics of the last vacuum and analyze, NULL if there are none. Exact figures need the extension pgstattuple, which
-- reads the whole index.
--
-- A leaf page has 8192 - 24 - 16 bytes for entries of 4 bytes of line pointer, 8 of header (16 with a NULL bitmap) and the
-- key, aligned to 8 bytes. Equal keys of an index that is not unique share an entry that lists up to 1352 bytes of
-- row addresses of 6 bytes each.
--
-- Security definer, because pg_stats shows only columns that the user may read.
create or replace function clerk_index_sizes()
returns table (table_name text, index_name text, size_bytes bigint, analyzed_bytes bigint, expected_bytes bigint)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $$
    with index as (
        select i.indexrelid as oid, i.indrelid, i.indkey, t.relname as table_name, c.relname as index_name,
               c.reltuples::double precision as index_rows, t.reltuples::double precision as table_rows, c.relpages,
               current_setting('block_size')::integer as block,
               coalesce((select o.option_value::integer from pg_options_to_table(c.reloptions) o
                         where o.option_name = 'fillfactor'), 90) / 100.0 as fillfactor,
               not i.indisunique and i.indnatts = i.indnkeyatts
               and coalesce((select o.option_value::boolean from pg_options_to_table(c.reloptions) o
                             where o.option_name = 'deduplicate_items'), true) as shares_entries
        from pg_index i
        join pg_class c on c.oid = i.indexrelid
        join pg_class t on t.oid = i.indrelid
        join pg_am a on a.oid = c.relam
        where c.relnamespace = 'public'::regnamespace and a.amname = 'btree' and c.relkind = 'i' and i.indisvalid
    ), key as (
        select index.oid,
               sum(s.avg_width * (1 - s.null_frac)) as width,
               max(s.null_frac) as null_fraction,
               -- The product of the columns' distinct values.
               exp(sum(ln(greatest(case when s.n_distinct < 0 then -s.n_distinct * index.table_rows
                                        else s.n_distinct end, 1)))) as distinct_keys,
               bool_and(s.avg_width is not null) as is_analyzed
        from index
        cross join unnest(index.indkey) with ordinality part (attribute, place)
        -- Statistics of an expression belong to the index.
        join pg_attribute a
          on a.attrelid = case when part.attribute = 0 then index.oid else index.indrelid end
         and a.attnum = case when part.attribute = 0 then part.place else part.attribute end
        left join pg_stats s
          on s.schemaname = 'public' and s.attname = a.attname and not s.inherited
         and s.tablename = case when part.attribute = 0 then index.index_name else index.table_name end
        group by index.oid
    ), entry as (
        select index.*, key.is_analyzed,
               ceil((8 + 8 * key.null_fraction + key.width) / 8.0) * 8 as bytes,
               index.index_rows / greatest(least(key.distinct_keys, index.index_rows), 1) as rows_per_key
        from index
        join key on key.oid = index.oid
    ), expected as (
        select entry.*,
               case when entry.shares_entries and entry.rows_per_key >= 2
                    then least(entry.bytes + 4, (entry.bytes + 4) / shared.rows + 6) else entry.bytes + 4 end as row_bytes
        from entry
        cross join lateral (
            select least(entry.rows_per_key, greatest((1352 - entry.bytes) / 6, 1)) as rows
        ) shared
    ), leaf as (
        select expected.*,
               ceil(expected.index_rows / floor((expected.block - 40) * expected.fillfactor / expected.row_bytes)) as pages
        from expected
    )
    select leaf.table_name::text, leaf.index_name::text, pg_relation_size(leaf.oid), leaf.relpages::bigint * leaf.block,
           -- One page for metadata, and those above the leaves, with an entry per page below.
           case when leaf.table_rows < 0 then null
                when leaf.index_rows <= 0 then leaf.block
                when leaf.is_analyzed
                then leaf.block * (1 + ceil(leaf.pages * (1 + (leaf.bytes + 4) / (leaf.block * 0.7)))) end::bigint
    from leaf
$$;
