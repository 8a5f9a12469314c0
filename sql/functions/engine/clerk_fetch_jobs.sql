-- needs: 0018
-- Up to p_slots jobs in one transaction. Fetching them one by one costs a round trip and a commit each, which limits a
-- worker with short jobs.
create or replace function clerk_fetch_jobs(p_queues text[], p_worker_id bigint, p_slots integer)
returns setof procrastinate_jobs
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_job procrastinate_jobs;
begin
    for slot in 1 .. p_slots loop
        v_job := clerk_fetch_job(p_queues, p_worker_id);
        exit when v_job.id is null;
        return next v_job;
    end loop;
end;
$$;
