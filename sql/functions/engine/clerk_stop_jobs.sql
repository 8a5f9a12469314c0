-- needs: 0018
-- Cancels waiting jobs and asks running ones to abort. Skips locked rows, because a session that has locked a site
-- never waits for a job row.
create or replace function clerk_stop_jobs(p_jobs bigint[]) returns void
language sql volatile
set search_path = pg_catalog, public, pg_temp
as $$
    select set_config('clerk.actor', 'clerk_stop_jobs', true);

    update procrastinate_jobs j
    set status = case j.status when 'todo' then 'cancelled'::procrastinate_job_status else j.status end,
        abort_requested = j.status = 'doing'
    where j.id in (
        select w.id from procrastinate_jobs w
        where w.id = any (p_jobs) and w.status in ('todo', 'doing')
        order by w.id
        for update skip locked
    )
$$;
