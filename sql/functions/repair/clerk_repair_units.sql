-- needs: 0018
-- Makes ledger, counters and coordinator of the current run agree: units without a ledger row get a row and a job, then
-- everything is counted again. The run and the stage of the site must be right already.
create or replace function clerk_repair_units(p_subdomain text) returns void
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_site sites;
    v_stage text;
    v_item bigint;
    v_late boolean;
begin
    perform set_config('clerk.actor', 'clerk_repair_units', true);
    select * into v_site from sites s where s.subdomain = p_subdomain for no key update;
    insert into content_items (subdomain, kind) values (p_subdomain, 'archive') on conflict do nothing;
    for v_stage, v_item, v_late in select m.stage, m.content_item_id, m.late from clerk_missing_units(p_subdomain) m loop
        if v_late then
            perform clerk_defer_late_unit(p_subdomain, v_site.run_id, v_stage, v_item);
        else
            insert into content_item_pipeline_state (content_item_id, pipeline) values (v_item, v_stage) on conflict do nothing;
            perform clerk_defer_unit(p_subdomain, v_site.run_id, v_stage, v_item);
        end if;
    end loop;
    perform clerk_recount_site(p_subdomain);
end;
$$;
