-- needs: 0017
-- A site that points at a run that is not there, or does not point at the one that is going. The run that is going is
-- the right one. If there is none: the run that the ledger still knows is written down again, and goes on unless the site
-- had completed it. If the ledger does not know it either, the site is where its last run left it, and its next is due.
create or replace function clerk_repair_site_run(p_subdomain text) returns boolean
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_site sites;
    v_run pipeline_runs;
begin
    perform set_config('clerk.actor', 'clerk_repair_site_run', true);
    select * into v_site from sites s where s.subdomain = p_subdomain for no key update;
    if not exists (select from dangling_runs r where r.subdomain = p_subdomain) then
        return false;
    end if;
    select * into v_run from pipeline_runs r where r.subdomain = p_subdomain and r.ended_at is null
    order by r.run_id desc limit 1;
    if not found and exists (select from content_items i
                             join content_item_pipeline_state l on l.content_item_id = i.id and l.run_id = v_site.run_id
                             where i.subdomain = p_subdomain) then
        insert into pipeline_runs (run_id, subdomain, reason, started_at, ended_at, outcome, outcome_reason)
        overriding system value
        select v_site.run_id, p_subdomain, 'found in the ledger; its own record was lost',
               coalesce(v_site.started_at, clerk_now()), case when ended.is_so then coalesce(v_site.updated_at, clerk_now()) end,
               case when ended.is_so then coalesce(v_site.outcome, 'failed') end,
               case when ended.is_so then 'the record of the run was lost' end
        from (values (v_site.current_stage is not distinct from 'completed')) as ended (is_so)
        returning * into v_run;
    elsif v_run.run_id is null then
        select * into v_run from pipeline_runs r where r.subdomain = p_subdomain order by r.run_id desc limit 1;
    end if;

    update sites s
    set run_id = v_run.run_id, outcome = v_run.outcome,
        current_stage = case when v_run.run_id is null then null when v_run.ended_at is not null then 'completed'
                             else s.current_stage end
    where s.subdomain = p_subdomain;
    if v_run.run_id is not null then
        perform clerk_repair_site_phase(p_subdomain);
        perform clerk_repair_units(p_subdomain);
        perform clerk_repair_transitions(p_subdomain);
    end if;
    return true;
end;
$$;
