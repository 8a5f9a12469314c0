-- needs: 0017
-- Starts one site that is due and says which; NULL when none is. Any number of schedulers may call it: each
-- site is picked once, the one that waited longest first. One site per call, so one site per transaction.
create or replace function clerk_start_next_due_site(p_reason text default 'scheduled') returns text
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_subdomain text;
begin
    perform set_config('clerk.actor', 'clerk_start_next_due_site', true);
    select s.subdomain into v_subdomain
    from sites s
    -- Not "current_stage is completed": a site that the older system left in mid-stage has no run, and is due.
    where s.paused_at is null
      and not exists (select from pipeline_runs r where r.run_id = s.run_id and r.ended_at is null)
      and (s.updated_at is null or s.updated_at < clerk_now() - s.run_interval)
    order by s.updated_at nulls first, s.subdomain
    limit 1
    for no key update skip locked;
    if found then
        perform clerk_start_run(v_subdomain, p_reason);
    end if;
    return v_subdomain;
end;
$$;
