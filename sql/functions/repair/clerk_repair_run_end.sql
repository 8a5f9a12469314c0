-- needs: 0017
-- A run that ended for some and not for others is over for all: open units end, with a reason that lets the next run
-- take them; waiting jobs are cancelled; site and run say the same. The run's own record is believed before the site.
create or replace function clerk_repair_run_end(p_run_id bigint) returns boolean
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_run pipeline_runs;
    v_site sites;
begin
    perform set_config('clerk.actor', 'clerk_repair_run_end', true);
    select s.* into v_site from sites s join pipeline_runs r on r.subdomain = s.subdomain
    where r.run_id = p_run_id for no key update of s;
    select * into v_run from pipeline_runs r where r.run_id = p_run_id;
    if not exists (select from run_end_mismatches e where e.run_id = p_run_id) then
        return false;
    end if;
    if v_run.ended_at is null and v_site.run_id is distinct from p_run_id then
        -- Without counters: those of the site are its newer run's.
        update pipeline_runs r
        set ended_at = clerk_now(), outcome = 'cancelled', outcome_reason = format('superseded by run %s', v_site.run_id)
        where r.run_id = p_run_id;
    end if;
    perform clerk_end_run(v_run.subdomain, p_run_id, coalesce(v_run.outcome, v_site.outcome, 'cancelled'),
                          'the run was over, and its record was put right');
    perform clerk_cancel_stale_jobs(v_run.subdomain, p_run_id);
    if v_site.run_id = p_run_id then
        perform clerk_repair_units(v_run.subdomain);
    end if;
    return true;
end;
$$;
