-- needs: 0026
-- Opens failed units of a stage of the current phase again, each with a new job. Units that failed in an older run join
-- this one. Returns how many.
create or replace function clerk_reopen_units(p_subdomain text, p_run_id bigint, p_stage text, p_items bigint[])
returns integer
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_item bigint;
    v_units integer := 0;
begin
    perform set_config('clerk.actor', 'clerk_reopen_units', true);
    for v_item in
        select l.content_item_id
        from content_items i
        join content_item_pipeline_state l on l.content_item_id = i.id
        where i.subdomain = p_subdomain and i.id = any (p_items)
          and l.pipeline = p_stage and l.status = 'failed_terminal'
        order by l.content_item_id
        for no key update of l
    loop
        perform clerk_defer_unit(p_subdomain, p_run_id, p_stage, v_item);
        v_units := v_units + 1;
    end loop;
    perform clerk_recount_site(p_subdomain);
    perform clerk_number_jobs(p_subdomain);
    return v_units;
end;
$$;
