-- needs: 0018
-- How many units of a phase have not ended, by the counters of the site; NULL if there is no such phase.
-- A bound expression: no search_path can change its meaning, and callers inline it.
create or replace function clerk_units_left(p_site sites, p_phase integer) returns integer
language sql immutable parallel safe
return case p_phase
    when 1 then greatest(p_site.fetch_total - p_site.fetch_completed - p_site.fetch_failed, 0)
    when 2 then greatest(p_site.ocr_total - p_site.ocr_completed - p_site.ocr_failed, 0)
    when 3 then greatest(p_site.compilation_total - p_site.compilation_completed - p_site.compilation_failed, 0)
                + greatest(p_site.extraction_total - p_site.extraction_completed - p_site.extraction_failed, 0)
    when 4 then greatest(p_site.deploy_total - p_site.deploy_completed - p_site.deploy_failed, 0)
end;
