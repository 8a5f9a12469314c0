-- needs: 0018
-- A job for a unit whose phase has ended. The unit counts as failed until the job succeeds, which makes the site dirty,
-- as after an operator's late retry. Called with the site's row locked.
create or replace function clerk_defer_late_unit(
    p_subdomain text, p_run_id bigint, p_stage text, p_content_item_id bigint
) returns bigint
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_job_id bigint := clerk_defer_job(p_subdomain, p_run_id, p_stage, p_content_item_id);
begin
    insert into content_item_pipeline_state as l
        (content_item_id, pipeline, status, error_code, error_message, run_id, job_id, reopened_at)
    values (p_content_item_id, p_stage, 'failed_terminal', 'JobLost', 'its job or its ledger row was lost, and its phase has ended',
            p_run_id, v_job_id, clerk_now())
    on conflict (content_item_id, pipeline) do update
    set status = 'failed_terminal', error_code = coalesce(l.error_code, excluded.error_code),
        error_message = coalesce(l.error_message, excluded.error_message), processed_at = null,
        run_id = excluded.run_id, job_id = excluded.job_id, reopened_at = excluded.reopened_at, updated_at = clerk_now();
    return v_job_id;
end;
$$;
