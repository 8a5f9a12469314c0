-- needs: 0018
-- Ends the pause of a site and releases its jobs. False if it was not paused.
create or replace function clerk_resume_site(p_subdomain text) returns boolean
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
begin
    perform set_config('clerk.actor', 'clerk_resume_site', true);
    update sites s set paused_at = null, paused_by = null
    where s.subdomain = p_subdomain and s.paused_at is not null;
    if not found then
        if not exists (select from sites s where s.subdomain = p_subdomain) then
            raise exception using errcode = 'KL001', message = format('there is no site %s', p_subdomain);
        end if;
        return false;
    end if;
    perform clerk_release_paused_jobs();
    insert into operator_actions (action, subdomain) values ('resume', p_subdomain);
    return true;
end;
$$;
