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
    loop
        -- Locks the row of the table: locking it through the view needs the privilege to update the view, which
        -- clerk_worker has for no view.
        select s.subdomain into v_subdomain
        from due_sites d
        join sites s using (subdomain)
        order by d.updated_at nulls first, d.subdomain
        limit 1
        for no key update of s skip locked;
        exit when v_subdomain is null;
        -- Another scheduler may have started the site after this query had read the view, and before it got the lock.
        if exists (select from due_sites d where d.subdomain = v_subdomain) then
            perform clerk_start_run(v_subdomain, p_reason);
            exit;
        end if;
    end loop;
    return v_subdomain;
end;
$$;
