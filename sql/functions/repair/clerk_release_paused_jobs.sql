-- needs: 0018
-- Schedules paused jobs now if neither their queue nor their site is paused any more; all of them, or those of one
-- site. Skips job rows that another session has locked: reconciliation releases those. Returns how many were
-- released.
create or replace function clerk_release_paused_jobs(p_subdomain text default null) returns integer
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_queue text;
    v_jobs integer := 0;
begin
    for v_queue in
        update procrastinate_jobs j set scheduled_at = null
        where j.id in (
            select w.job_id
            from wrongly_paused_jobs w
            join procrastinate_jobs l on l.id = w.job_id and l.status = 'todo'
            where p_subdomain is null or w.subdomain = p_subdomain
            -- Lock order: a caller that has locked the site must not wait for a job row.
            for update of l skip locked
        )
        returning j.queue_name
    loop
        v_jobs := v_jobs + 1;
        perform clerk_notify_queue(v_queue);
    end loop;
    return v_jobs;
end;
$$;
