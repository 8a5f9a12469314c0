-- needs: 0018
-- Retention: deletes one batch of jobs, with their events, that ended before p_before and whose run has ended.
-- Returns how many. Call it until it returns 0, so that no transaction is long.
create or replace function clerk_remove_finished_jobs(p_before timestamptz, p_batch integer default 1000)
returns integer
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_removed integer;
begin
    delete from procrastinate_jobs d
    -- As an array, which is evaluated once: a plan may run a subquery for every row, and so ignore the limit.
    where d.id = any (array(
        select j.id
        from procrastinate_jobs j
        where j.status not in ('todo', 'doing')
          -- 'scheduled' events have the planned time: the year 9000 for a job that was paused.
          and not exists (select from procrastinate_events e
                          where e.job_id = j.id and e.at >= p_before and e.type is distinct from 'scheduled')
          and not (case when j.args ->> 'run_id' ~ '^[0-9]{1,18}$'
                        then clerk_run_is_active((j.args ->> 'run_id')::bigint) else false end)
        order by j.id
        limit p_batch
        for update skip locked
    ));
    get diagnostics v_removed = row_count;
    return v_removed;
end;
$$;
