-- needs: 0017
-- Ends the run that is going. Returns its run_id, or NULL if none was.
create or replace function clerk_cancel_run(p_subdomain text, p_reason text default 'cancelled by an operator')
returns bigint
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_site sites;
begin
    perform set_config('clerk.actor', 'clerk_cancel_run', true);
    select * into v_site from sites s where s.subdomain = p_subdomain for no key update;
    if not found then
        raise exception using errcode = 'KL001', message = format('there is no site %s', p_subdomain);
    end if;
    if not clerk_run_is_active(v_site.run_id) then
        return null;
    end if;
    perform clerk_end_run(p_subdomain, v_site.run_id, 'cancelled', p_reason, 'RunCancelled');
    insert into operator_actions (action, subdomain, run_id, detail)
    values ('cancel', p_subdomain, v_site.run_id, jsonb_build_object('reason', p_reason));
    return v_site.run_id;
end;
$$;
