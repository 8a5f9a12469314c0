-- needs: 0018
-- Retries all failed units of a site, or those of one stage. The earliest stage decides how the run continues or starts;
-- the units of later stages follow in the same run. Unless p_failed_only is set, units that wait for their own retry
-- are expedited as well. `stage`: the stages that were retried, in order, separated by commas.
create or replace function clerk_retry_failed(
    p_subdomain text, p_stage text default null, p_failed_only boolean default false,
    out run_id bigint, out stage text, out units integer
)
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_site sites;
    v_stage text;
    v_items bigint[];
    v_units integer;
    v_waiting integer := 0;
begin
    perform set_config('clerk.actor', 'clerk_retry_failed', true);
    if p_stage is not null and clerk_phase(p_stage) is null then
        raise exception using errcode = 'KL004', message = format('%s is not a stage', p_stage);
    end if;
    select * into v_site from sites s where s.subdomain = p_subdomain for no key update;
    if not found then
        raise exception using errcode = 'KL001', message = format('there is no site %s', p_subdomain);
    end if;

    run_id := v_site.run_id;
    units := 0;
    if not p_failed_only and clerk_run_is_active(v_site.run_id) then
        v_waiting := clerk_expedite_retries(p_subdomain, v_site.run_id, p_stage);
    end if;

    -- The loop reads the failed units once: units that fail because their run is superseded below are not retried here.
    for v_stage, v_items in
        select l.pipeline, array_agg(l.content_item_id order by l.content_item_id)
        from content_items i
        join content_item_pipeline_state l on l.content_item_id = i.id
        where i.subdomain = p_subdomain and l.status = 'failed_terminal' and (p_stage is null or l.pipeline = p_stage)
        group by l.pipeline
        order by clerk_phase(l.pipeline), l.pipeline
    loop
        select r.run_id, r.units into run_id, v_units from clerk_retry_units(p_subdomain, v_stage, v_items) r;
        units := units + v_units;
        if v_units > 0 then
            stage := concat_ws(', ', stage, v_stage);
        end if;
    end loop;

    if stage is null and v_waiting > 0 then
        insert into operator_actions (action, subdomain, run_id, detail)
        values ('retry', p_subdomain, run_id, jsonb_build_object('stage', p_stage, 'expedited', v_waiting));
    end if;
    -- A new run has ended the one whose retries were expedited.
    if run_id is not distinct from v_site.run_id then
        units := units + v_waiting;
    end if;
end;
$$;
