-- needs: 0017
-- until: cleanup
-- Keeps what the older system said of a site, when its first run here is about to overwrite that. By name, not the
-- whole row: it may hold JSON that jsonb refuses, in columns that are no business of ours.
create or replace function clerk_save_legacy_site() returns trigger
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
begin
    insert into legacy_sites (subdomain, as_found)
    select old.subdomain, to_jsonb(was)
    from (select old.current_stage, old.started_at, old.updated_at, old.coordinator_enqueued,
                 old.fetch_total, old.fetch_completed, old.fetch_failed,
                 old.ocr_total, old.ocr_completed, old.ocr_failed,
                 old.compilation_total, old.compilation_completed, old.compilation_failed,
                 old.extraction_total, old.extraction_completed, old.extraction_failed,
                 old.deploy_total, old.deploy_completed, old.deploy_failed,
                 old.last_error_stage, old.last_error_message, old.last_error_at,
                 old.status, old.extraction_status, old.last_updated, old.last_deployed, old.last_extracted) was
    -- A database that clerk made itself has nobody to go back to.
    where exists (select from legacy_schema a where a.kind = 'table')
    on conflict do nothing;
    return new;
end;
$$;
