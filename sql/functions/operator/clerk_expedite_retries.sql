-- needs: 0018
-- Makes the jobs of a run that wait for a later retry due now. Returns how many there were.
create or replace function clerk_expedite_retries(p_subdomain text, p_run_id bigint, p_stage text default null)
returns integer
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_queue text;
    v_jobs integer := 0;
begin
    perform set_config('clerk.actor', 'clerk_expedite_retries', true);
    for v_queue in
        update procrastinate_jobs j
        set scheduled_at = null
        where j.id in (
            select w.id
            from content_items i
            join content_item_pipeline_state l on l.content_item_id = i.id
            join procrastinate_jobs w on w.id = l.job_id
            where i.subdomain = p_subdomain and l.run_id = p_run_id and (p_stage is null or l.pipeline = p_stage)
              and l.status in ('pending', 'failed_retryable') and w.status = 'todo' and w.scheduled_at > clerk_now()
              and w.scheduled_at < clerk_paused_until()
            for update of w skip locked
        )
        returning j.queue_name
    loop
        v_jobs := v_jobs + 1;
        perform clerk_notify_queue(v_queue);
    end loop;
    return v_jobs;
end;
$$;
