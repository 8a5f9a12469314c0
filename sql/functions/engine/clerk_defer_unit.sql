-- needs: 0018
-- A new job for an open unit. The ledger row names the new job, so any result of an older one is stale. Called with the
-- site's row locked.
create or replace function clerk_defer_unit(p_subdomain text, p_run_id bigint, p_stage text, p_content_item_id bigint)
returns bigint
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_job_id bigint;
begin
    insert into procrastinate_jobs (queue_name, task_name, args)
    select p_stage, p.task_name,
           jsonb_build_object('subdomain', p_subdomain, 'run_id', p_run_id, 'stage', p_stage,
                              'content_item_id', p_content_item_id)
    from stage_policy p
    where p.stage = p_stage
    returning id into v_job_id;

    update content_item_pipeline_state l
    set status = 'pending', processed_at = null, reopened_at = null, job_id = v_job_id,
        run_id = p_run_id, updated_at = clerk_now()
    where l.content_item_id = p_content_item_id and l.pipeline = p_stage;
    return v_job_id;
end;
$$;
