-- needs: 0017
-- As many jobs as a worker has free places for, in one transaction: asking for each alone takes a round trip and a
-- commit each, one after the other, and that is what bounds a worker with short jobs.
create or replace function clerk_fetch_jobs(p_queues text[], p_worker_id bigint, p_places integer)
returns setof procrastinate_jobs
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_job procrastinate_jobs;
begin
    for place in 1 .. p_places loop
        v_job := clerk_fetch_job(p_queues, p_worker_id);
        exit when v_job.id is null;
        return next v_job;
    end loop;
end;
$$;
