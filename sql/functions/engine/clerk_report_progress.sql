-- needs: 0017
-- Steps done of steps in all, such as pages; renews the lease on the way. False if the claim is somebody else's
-- by now: the job should stop, for nothing it does will count.
create or replace function clerk_report_progress(p_job_id bigint, p_attempt integer, p_done integer, p_total integer)
returns boolean
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
begin
    update job_claims c
    set progress = greatest(p_done, 0), progress_total = p_total, progress_at = clerk_now()
    where c.job_id = p_job_id and c.attempt = p_attempt and c.holder = current_setting('application_name')
      and c.settled_as is null;
    if not found then
        return false;
    end if;
    return exists (select from clerk_renew_leases(array[p_job_id]));
end;
$$;
