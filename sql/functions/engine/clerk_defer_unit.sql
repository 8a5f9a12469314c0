-- needs: 0018
-- A new job for an open unit. The ledger row names the new job, so any result of an older one is stale. Called with the
-- site's row locked.
create or replace function clerk_defer_unit(p_subdomain text, p_run_id bigint, p_stage text, p_content_item_id bigint)
returns bigint
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_job_id bigint := clerk_defer_job(p_subdomain, p_run_id, p_stage, p_content_item_id);
begin
    update content_item_pipeline_state l
    set status = 'pending', processed_at = null, reopened_at = null, job_id = v_job_id,
        run_id = p_run_id, updated_at = clerk_now()
    where l.content_item_id = p_content_item_id and l.pipeline = p_stage;
    return v_job_id;
end;
$$;
