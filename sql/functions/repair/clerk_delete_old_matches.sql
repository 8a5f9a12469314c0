-- needs: 0025
-- Retention: deletes matches of saved searches after a year, and deliveries 90 days after they were delivered. The pages
-- are not delivered again: published_pages has their ids. Returns the number of deleted matches.
create or replace function clerk_delete_old_matches() returns bigint
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_matches bigint;
begin
    delete from saved_search_deliveries d where d.delivered_at < clerk_now() - interval '90 days';
    delete from saved_search_matches m where m.matched_at < clerk_now() - interval '1 year';
    get diagnostics v_matches = row_count;
    return v_matches;
end;
$$;
