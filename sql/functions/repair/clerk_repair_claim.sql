-- needs: 0018
-- Sets a claim to the status of its job, or deletes it if the job does not exist. False if they already agree.
create or replace function clerk_repair_claim(p_job_id bigint) returns boolean
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_status text;
begin
    -- Lock order: the job before the claim. A locked job is about to change, and is left alone.
    select j.status into v_status from procrastinate_jobs j where j.id = p_job_id for update skip locked;
    if not exists (select from claim_mismatches c where c.job_id = p_job_id)
       or v_status is null and exists (select from procrastinate_jobs j where j.id = p_job_id) then
        return false;
    end if;
    if v_status is null then
        delete from job_claims c where c.job_id = p_job_id;
    else
        update job_claims c set settled_as = v_status, settled_at = clerk_now(), settled_by = 'clerk_repair_claim'
        where c.job_id = p_job_id;
    end if;
    return true;
end;
$$;
