-- needs: 0018
-- Starts the due site that has waited longest and returns its subdomain; NULL when none is due. Any number of
-- schedulers may call it: each starts another site. One site per call, so that a transaction locks one site.
create or replace function clerk_start_next_due_site(p_reason text default 'scheduled') returns text
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_subdomain text;
begin
    perform set_config('clerk.actor', 'clerk_start_next_due_site', true);
    select d.subdomain into v_subdomain
    from due_sites d
    order by d.updated_at nulls first, d.subdomain
    limit 1
    for no key update skip locked;
    if found then
        perform clerk_start_run(v_subdomain, p_reason);
    end if;
    return v_subdomain;
end;
$$;
