-- needs: 0018
-- Ends the open run of a site as cancelled. Returns its run_id, or NULL if there is none.
create or replace function clerk_cancel_run(p_subdomain text, p_reason text default 'cancelled by an operator')
returns bigint
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_run_id bigint;
begin
    perform set_config('clerk.actor', 'clerk_cancel_run', true);
    perform from sites s where s.subdomain = p_subdomain for no key update;
    if not found then
        raise exception using errcode = 'KL001', message = format('there is no site %s', p_subdomain);
    end if;
    v_run_id := clerk_open_run(p_subdomain);
    if v_run_id is null then
        return null;
    end if;
    perform clerk_end_run(p_subdomain, v_run_id, 'cancelled', p_reason, 'RunCancelled');
    insert into operator_actions (action, subdomain, run_id, detail)
    values ('cancel', p_subdomain, v_run_id, jsonb_build_object('reason', p_reason));
    return v_run_id;
end;
$$;
