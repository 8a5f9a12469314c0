-- needs: 0018
-- Retries all failed units of a stage; without a stage, of the earliest one that has any. Unless p_failed_only is set,
-- units that wait for their own retry are expedited as well.
create or replace function clerk_retry_failed(
    p_subdomain text, p_stage text default null, p_failed_only boolean default false,
    out run_id bigint, out stage text, out units integer
)
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_site sites;
    v_items bigint[];
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

    select l.pipeline, array_agg(l.content_item_id order by l.content_item_id) into stage, v_items
    from content_items i
    join content_item_pipeline_state l on l.content_item_id = i.id
    where i.subdomain = p_subdomain and l.status = 'failed_terminal' and (p_stage is null or l.pipeline = p_stage)
    group by l.pipeline
    order by clerk_phase(l.pipeline), l.pipeline
    limit 1;
    run_id := v_site.run_id;

    if not p_failed_only and clerk_run_is_active(v_site.run_id) then
        v_waiting := clerk_expedite_retries(p_subdomain, v_site.run_id, p_stage);
    end if;
    if v_items is null then
        units := v_waiting;
        if units > 0 then
            insert into operator_actions (action, subdomain, run_id, detail)
            values ('retry', p_subdomain, run_id, jsonb_build_object('stage', p_stage, 'expedited', units));
        end if;
        return;
    end if;

    select r.run_id, r.units into run_id, units from clerk_retry_units(p_subdomain, stage, v_items) r;
    -- A new run has ended the one whose retries were expedited.
    if run_id = v_site.run_id then
        units := units + v_waiting;
    end if;
end;
$$;
