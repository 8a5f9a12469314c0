-- needs: 0018
-- When a unit or a phase of the run last ended; NULL if none has.
create or replace function clerk_last_progress(p_subdomain text, p_run_id bigint) returns timestamptz
language sql stable
set search_path = pg_catalog, public, pg_temp
as $$
    select greatest(
        (select max(t.advanced_at) from pipeline_transitions t where t.run_id = p_run_id),
        (select max(l.updated_at)
         from content_items i
         join content_item_pipeline_state l on l.content_item_id = i.id
         where i.subdomain = p_subdomain and l.run_id = p_run_id
           and l.status in ('processed', 'failed_terminal') and l.reopened_at is null))
$$;
