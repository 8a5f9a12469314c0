-- needs: 0018
-- Records steps done of a total, such as pages, and renews the lease. False if the claim is lost: the job should stop,
-- because its result will be rejected.
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
