-- needs: 0006
-- Tries failed units of a stage again; without a stage, of the earliest one that has any. While the stage is
-- going on they are opened again where they are. If it is yet to come, the run that is going takes them along.
-- After it, a new run does just them, and what follows from them: the other documents are not done again. p_failed_only: leave those alone that wait for a retry of
-- their own; otherwise they are brought forward too. Returns what was done.
create or replace function clerk_retry(
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
    perform set_config('clerk.actor', 'clerk_retry', true);
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

    if not p_failed_only and clerk_run_is_going(v_site.run_id) then
        v_waiting := clerk_bring_forward(p_subdomain, v_site.run_id, p_stage);
    end if;
    if v_items is null then
        units := v_waiting;
        return;
    end if;

    if clerk_run_is_going(v_site.run_id) and clerk_phase(v_site.current_stage) = clerk_phase(stage)
       and not v_site.coordinator_enqueued then
        units := clerk_reopen_failed(p_subdomain, v_site.run_id, stage) + v_waiting;
    elsif clerk_run_is_going(v_site.run_id) and clerk_phase(v_site.current_stage) < clerk_phase(stage) then
        -- A unit without a row is one that the phase has to do. Superseding would throw away what goes before.
        delete from content_item_pipeline_state l where l.content_item_id = any (v_items) and l.pipeline = stage;
        units := cardinality(v_items) + v_waiting;
    else
        run_id := clerk_start_run(p_subdomain, format('retry of %s', stage), true, clerk_phase(stage),
                                  case when stage in ('ocr', 'extraction') then v_items end);
        units := cardinality(v_items);
    end if;
end;
$$;
