-- needs: 0018
-- Gives an orphaned unit a new job. If its phase has ended, the unit is late, and the run does not wait for it. False if
-- it is not orphaned.
create or replace function clerk_redefer_unit(p_content_item_id bigint, p_stage text) returns boolean
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_subdomain text := (select i.subdomain from content_items i where i.id = p_content_item_id);
    v_run_id bigint;
    v_late boolean;
begin
    perform set_config('clerk.actor', 'clerk_redefer_unit', true);
    perform from sites s where s.subdomain = v_subdomain for no key update;
    select u.run_id, u.late into v_run_id, v_late from orphaned_units u
    where u.content_item_id = p_content_item_id and u.stage = p_stage;
    if not found then
        return false;
    end if;
    if v_late then
        perform clerk_defer_late_unit(v_subdomain, v_run_id, p_stage, p_content_item_id);
        perform clerk_recount_site(v_subdomain);
    else
        perform clerk_defer_unit(v_subdomain, v_run_id, p_stage, p_content_item_id);
    end if;
    return true;
end;
$$;
