-- needs: 0018
-- Makes site, ledger and jobs agree with a run's record, which says whether the run has ended. An open run that is
-- not its site's current one is cancelled. An ended run is ended everywhere: open units fail with an error that lets
-- the next run take them up, waiting jobs are cancelled, the site is completed with the outcome of the run. The site
-- of an active run is put into the phase that the run has reached. False if nothing disagreed.
create or replace function clerk_repair_run(p_run_id bigint) returns boolean
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_run pipeline_runs;
    v_site sites;
begin
    perform set_config('clerk.actor', 'clerk_repair_run', true);
    select s.* into v_site from sites s join pipeline_runs r on r.subdomain = s.subdomain
    where r.run_id = p_run_id for no key update of s;
    select * into v_run from pipeline_runs r where r.run_id = p_run_id;
    if not exists (select from run_mismatches m where m.run_id = p_run_id) then
        return false;
    end if;
    if v_run.ended_at is null and v_site.run_id = p_run_id then
        update sites s
        set current_stage = case coalesce(clerk_run_phase(s.subdomain, p_run_id), clerk_phase(s.current_stage), 1)
                                when 1 then 'fetch' when 2 then 'ocr' when 3 then 'extraction' else 'deploy' end,
            outcome = null
        where s.subdomain = v_site.subdomain;
    else
        perform clerk_end_run(v_run.subdomain, p_run_id, coalesce(v_run.outcome, 'cancelled'),
                              case when v_run.ended_at is null then 'not the current run of its site'
                                   else 'the run had ended' end);
        perform clerk_cancel_stale_jobs(v_run.subdomain, p_run_id);
    end if;
    if v_site.run_id = p_run_id then
        perform clerk_repair_units(v_run.subdomain);
    end if;
    return true;
end;
$$;
