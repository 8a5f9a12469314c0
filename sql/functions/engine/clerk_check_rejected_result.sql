-- needs: 0018
-- For a worker whose finish or retry was rejected (P0001). Returns 'mine' if that result was committed before and only
-- the response was lost, or 'fenced' if the job is no longer the worker's; the latter is recorded. Needs a transaction
-- of its own, because the rejection rolled back the one in which it happened.
create or replace function clerk_check_rejected_result(p_job_id bigint, p_attempt integer, p_status text) returns text
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
begin
    if exists (select from job_claims c
               where c.job_id = p_job_id and c.attempt = p_attempt
                 -- Procrastinate turns the retry of a job with an abort request into a failure.
                 and (c.settled_as = p_status or p_status = 'todo' and c.settled_as = 'failed')
                 and c.holder = current_setting('application_name')
                 -- A rescue also settles the claim as `todo`, but is not the holder's own retry.
                 and c.settled_by = c.holder) then
        return 'mine';
    end if;
    insert into ignored_results (why, job_id, status, holder, attempt, subdomain, run_id, stage, content_item_id)
    select 'fenced', p_job_id, p_status, current_setting('application_name'), p_attempt, j.args ->> 'subdomain',
           case when j.args ->> 'run_id' ~ '^[0-9]{1,18}$' then (j.args ->> 'run_id')::bigint end,
           j.args ->> 'stage',
           case when j.args ->> 'content_item_id' ~ '^[0-9]{1,18}$' then (j.args ->> 'content_item_id')::bigint end
    from (values (p_job_id)) as rejected (job_id)
    left join procrastinate_jobs j on j.id = rejected.job_id;
    return 'fenced';
end;
$$;
