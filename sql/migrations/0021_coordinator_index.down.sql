-- The index as the first migration found it in a database of legacy clerk, or as it made it.

drop index if exists idx_sites_coordinator_enqueued;
do $$
begin
    execute coalesce(
        (select as_found #>> '{}' from legacy_schema where kind = 'index' and name = 'idx_sites_coordinator_enqueued'),
        'create index idx_sites_coordinator_enqueued on sites (coordinator_enqueued) where coordinator_enqueued = false');
end;
$$;
