-- needs: 0018
-- Inserts the job of a unit and returns its id.
create or replace function clerk_defer_job(p_subdomain text, p_run_id bigint, p_stage text, p_content_item_id bigint)
returns bigint
language sql volatile
set search_path = pg_catalog, public, pg_temp
as $$
    insert into procrastinate_jobs (queue_name, task_name, args)
    select p_stage, p.task_name,
           jsonb_build_object('subdomain', p_subdomain, 'run_id', p_run_id, 'stage', p_stage,
                              'content_item_id', p_content_item_id,
                              'traceparent', clerk_traceparent(p_subdomain, p_run_id))
    from stage_policy p
    where p.stage = p_stage
    returning id
$$;
