-- needs: 0018
-- Renews the leases of a worker's running jobs and returns the jobs it still holds. A job past the time limit of its
-- stage is not renewed: its lease expires, and the reconciler rescues it.
create or replace function clerk_renew_leases(p_jobs bigint[]) returns setof bigint
language sql volatile
set search_path = pg_catalog, public, pg_temp
as $$
    -- A renewal that is lost in a crash of the server is followed by another one.
    select set_config('synchronous_commit', 'off', true);

    -- Lock order: claims in order of the job, as in clerk_record_change.
    select from job_claims c
    where c.job_id = any (p_jobs) and c.holder = current_setting('application_name') and c.settled_as is null
    order by c.job_id
    for no key update;

    update job_claims c
    set lease_until = clerk_now() + coalesce(p.lease, interval '2 minutes')
    from procrastinate_jobs j
    left join stage_policy p on p.stage = j.args ->> 'stage'
    where c.job_id = any (p_jobs) and j.id = c.job_id and c.holder = current_setting('application_name')
      and c.settled_as is null and c.claimed_at > clerk_now() - coalesce(p.time_limit, interval '1 hour')
    returning c.job_id
$$;
