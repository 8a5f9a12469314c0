-- needs: 0017
-- Asked by a worker whose finish or retry was refused (P0001): was it committed before, its answer lost on the
-- way ("mine"), or does somebody else hold the job ("fenced")? The latter is recorded. In a transaction of its
-- own, since the refusal rolled back everything that came with it.
create or replace function clerk_check_rejected_result(p_job_id bigint, p_attempt integer, p_status text) returns text
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
begin
    if exists (select from job_claims c
               where c.job_id = p_job_id and c.attempt = p_attempt
                 -- Procrastinate makes a failure of the retry of a job that was asked to stop.
                 and (c.settled_as = p_status or p_status = 'todo' and c.settled_as = 'failed')
                 and c.holder = current_setting('application_name')
                 -- A rescue gives back the job too: that is not the holder's own retry.
                 and c.settled_by = c.holder) then
        return 'mine';
    end if;
    insert into ignored_results (why, job_id, status, holder, attempt, subdomain, run_id, stage, content_item_id)
    select 'fenced', p_job_id, p_status, current_setting('application_name'), p_attempt, j.args ->> 'subdomain',
           case when j.args ->> 'run_id' ~ '^[0-9]{1,18}$' then (j.args ->> 'run_id')::bigint end,
           j.args ->> 'stage',
           case when j.args ->> 'content_item_id' ~ '^[0-9]{1,18}$' then (j.args ->> 'content_item_id')::bigint end
    from (values (p_job_id)) as asked (id)
    left join procrastinate_jobs j on j.id = asked.id;
    return 'fenced';
end;
$$;
