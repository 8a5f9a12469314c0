-- needs: 0018
-- until: cleanup
-- Saves the legacy values of a site before its first run overwrites them. Only the named columns: others may hold JSON
-- that jsonb rejects.
create or replace function clerk_save_legacy_site() returns trigger
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
begin
    insert into legacy_sites (subdomain, as_found)
    select old.subdomain, to_jsonb(legacy)
    from (select old.current_stage, old.started_at, old.updated_at, old.coordinator_enqueued,
                 old.fetch_total, old.fetch_completed, old.fetch_failed,
                 old.ocr_total, old.ocr_completed, old.ocr_failed,
                 old.compilation_total, old.compilation_completed, old.compilation_failed,
                 old.extraction_total, old.extraction_completed, old.extraction_failed,
                 old.deploy_total, old.deploy_completed, old.deploy_failed,
                 old.last_error_stage, old.last_error_message, old.last_error_at,
                 old.status, old.extraction_status, old.last_updated, old.last_deployed, old.last_extracted) legacy
    -- A database created by clerk has no legacy values.
    where exists (select from legacy_schema a where a.kind = 'table')
    on conflict do nothing;
    return new;
end;
$$;
