-- needs: 0017
-- A claim says what became of its job, and goes with it.
create or replace function clerk_repair_claim(p_job_id bigint) returns boolean
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_status text;
begin
    -- The job before the claim, as everywhere; one that somebody holds is about to speak for itself.
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
