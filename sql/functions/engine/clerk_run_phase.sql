-- needs: 0018
-- The phase that a run has reached: the last one that has a unit in the ledger or a claimed coordinator (a phase
-- without units has only the latter). NULL if there is neither.
create or replace function clerk_run_phase(p_subdomain text, p_run_id bigint) returns integer
language sql stable
set search_path = pg_catalog, public, pg_temp
as $$
    select greatest(
        (select max(t.phase)::integer from pipeline_transitions t where t.run_id = p_run_id),
        (select max(clerk_phase(l.pipeline))
         from content_items i
         join content_item_pipeline_state l on l.content_item_id = i.id and l.run_id = p_run_id
         where i.subdomain = p_subdomain))
$$;
