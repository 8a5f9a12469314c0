-- needs: 0026
-- Pauses a site: its waiting and future jobs are scheduled for the distant future. Running jobs continue. False if it
-- was paused already.
create or replace function clerk_pause_site(p_subdomain text, p_by text) returns boolean
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
begin
    perform set_config('clerk.actor', 'clerk_pause_site', true);
    update sites s set paused_at = clerk_now(), paused_by = p_by
    where s.subdomain = p_subdomain and s.paused_at is null;
    if not found then
        if not exists (select from sites s where s.subdomain = p_subdomain) then
            raise exception using errcode = 'KL001', message = format('there is no site %s', p_subdomain);
        end if;
        return false;
    end if;
    -- Last in the order: a fetch does not read past them, and new sites do not begin at their turn.
    update procrastinate_jobs j
    set scheduled_at = clerk_paused_until(), turn = case when j.turn = 0 then 0 end
    where j.id in (
        select w.id from procrastinate_jobs w
        where w.status = 'todo' and w.args ->> 'subdomain' = p_subdomain
        for update skip locked
    );
    insert into operator_actions (action, subdomain, detail)
    values ('pause', p_subdomain, jsonb_build_object('by', p_by));
    return true;
end;
$$;
