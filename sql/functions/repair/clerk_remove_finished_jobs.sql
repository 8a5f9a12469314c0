-- needs: 0017
-- Retention: removes one batch of jobs (their events go with them) that ended before p_before and whose run is
-- over. Returns how many; call it until it returns 0, so that no transaction is long.
create or replace function clerk_remove_finished_jobs(p_before timestamptz, p_batch integer default 1000)
returns integer
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_removed integer;
begin
    delete from procrastinate_jobs d
    -- As an array, evaluated once: a plan may run a subquery again for every row, and the batch would have no end.
    where d.id = any (array(
        select j.id
        from procrastinate_jobs j
        where j.status not in ('todo', 'doing')
          -- 'scheduled' is stamped with the time that was planned: year 9000 for a job that was once held back.
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
