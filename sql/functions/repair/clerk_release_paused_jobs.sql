-- needs: 0026
-- Schedules paused jobs now if neither their queue nor their site is paused any more; all of them, or those of one
-- site. The documents of each site get new turns. Skips job rows that another session has locked: reconciliation
-- releases those. Returns how many were released.
create or replace function clerk_release_paused_jobs(p_subdomain text default null) returns integer
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_queue text;
    v_subdomain text;
    v_subdomains text[] := '{}';
    v_jobs integer := 0;
begin
    for v_queue, v_subdomain in
        update procrastinate_jobs j set scheduled_at = null, turn = 0
        where j.id in (
            select w.job_id
            from wrongly_paused_jobs w
            join procrastinate_jobs l on l.id = w.job_id and l.status = 'todo'
            where p_subdomain is null or w.subdomain = p_subdomain
            -- Lock order: a caller that has locked the site must not wait for a job row.
            for update of l skip locked
        )
        returning j.queue_name, j.args ->> 'subdomain'
    loop
        v_jobs := v_jobs + 1;
        perform clerk_notify_queue(v_queue);
        if v_subdomain is not null and v_subdomain <> all (v_subdomains) then
            v_subdomains := v_subdomains || v_subdomain;
        end if;
    end loop;
    foreach v_subdomain in array v_subdomains loop
        perform clerk_number_jobs(v_subdomain);
    end loop;
    return v_jobs;
end;
$$;
