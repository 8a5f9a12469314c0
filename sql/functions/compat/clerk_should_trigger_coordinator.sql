-- needs: 0017
-- All units of the stage's phase are in, and its coordinator is not claimed yet.
create or replace function clerk_should_trigger_coordinator(p_subdomain text, p_stage text) returns boolean
language sql stable
set search_path = pg_catalog, public, pg_temp
as $$
    select coalesce((
        select not s.coordinator_enqueued and case clerk_phase(p_stage)
                   when 1 then s.fetch_completed + s.fetch_failed >= s.fetch_total
                   when 2 then s.ocr_completed + s.ocr_failed >= s.ocr_total
                   when 3 then s.compilation_completed + s.compilation_failed >= s.compilation_total
                               and s.extraction_completed + s.extraction_failed >= s.extraction_total
                   when 4 then s.deploy_completed + s.deploy_failed >= s.deploy_total
                   else false end
        from sites s
        where s.subdomain = p_subdomain
    ), false)
$$;
