-- needs: 0026
-- Starts all stages of a phase: totals, ledger rows and jobs in one transaction, so no unit can end before the totals
-- are written, and a crash leaves nothing half started. A phase without units gets its coordinator immediately.
-- Documents get consecutive turns. Returns the number of units.
create or replace function clerk_start_phase(
    p_subdomain text, p_run_id bigint, p_phase integer, p_units bigint[] default null
) returns integer
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_weight integer;
    v_totals jsonb;
    v_units integer;
    v_traceparent text := clerk_traceparent(p_subdomain, p_run_id);
begin
    perform set_config('clerk.actor', 'clerk_start_phase', true);
    select s.weight into v_weight from sites s where s.subdomain = p_subdomain and s.run_id = p_run_id for no key update;
    if not found or not clerk_run_is_active(p_run_id) then
        raise exception using errcode = 'KL003',
            message = format('run %s is not the active run of %s', p_run_id, p_subdomain);
    end if;

    with unit as (
        select u.content_item_id, u.stage from clerk_units_of_phase(p_subdomain, p_phase, p_units) u
    ), policy as materialized (
        -- One job per site needs no turn.
        select p.stage, p.task_name,
               case when p.stage in ('ocr', 'extraction') then clerk_first_turn(p.stage) end as first_turn
        from stage_policy p
        where p.phase = p_phase
    ), job as (
        insert into procrastinate_jobs (queue_name, task_name, args, turn)
        select unit.stage, p.task_name,
               jsonb_build_object('subdomain', p_subdomain, 'run_id', p_run_id, 'stage', unit.stage,
                                  'content_item_id', unit.content_item_id, 'traceparent', v_traceparent),
               coalesce(clerk_turn(p.first_turn,
                                   row_number() over (partition by unit.stage order by unit.content_item_id) - 1,
                                   v_weight), 0)
        from unit
        join policy p on p.stage = unit.stage
        order by unit.content_item_id
        returning id, args ->> 'stage' as stage, (args ->> 'content_item_id')::bigint as content_item_id
    ), ledger as (
        insert into content_item_pipeline_state as l (content_item_id, pipeline, run_id, job_id)
        select job.content_item_id, job.stage, p_run_id, job.id
        from job
        order by job.content_item_id
        on conflict (content_item_id, pipeline) do update
        set status = 'pending', attempt_count = 0, error_code = null, error_message = null, last_attempt_at = null,
            processed_at = null, reopened_at = null, updated_at = clerk_now(),
            run_id = excluded.run_id, job_id = excluded.job_id
        returning l.pipeline
    ), total as (
        select ledger.pipeline, count(*) as units from ledger group by ledger.pipeline
    )
    select coalesce(jsonb_object_agg(total.pipeline, total.units), '{}'), coalesce(sum(total.units), 0)
    into v_totals, v_units
    from total;

    update sites s
    set current_stage = case p_phase when 1 then 'fetch' when 2 then 'ocr' when 3 then 'extraction' else 'deploy' end,
        fetch_total = case when p_phase = 1 then coalesce((v_totals ->> 'fetch')::integer, 0) else s.fetch_total end,
        ocr_total = case when p_phase = 2 then coalesce((v_totals ->> 'ocr')::integer, 0) else s.ocr_total end,
        compilation_total = case when p_phase = 3 then coalesce((v_totals ->> 'compilation')::integer, 0)
                                 else s.compilation_total end,
        extraction_total = case when p_phase = 3 then coalesce((v_totals ->> 'extraction')::integer, 0)
                                else s.extraction_total end,
        deploy_total = case when p_phase = 4 then coalesce((v_totals ->> 'deploy')::integer, 0)
                            else s.deploy_total end,
        coordinator_enqueued = v_units = 0,
        -- Compilation includes every late document that has succeeded by now.
        dirty = s.dirty and p_phase <> 3,
        updated_at = date_trunc('second', clerk_now())
    where s.subdomain = p_subdomain;

    if v_units = 0 then
        perform clerk_defer_coordinator(p_subdomain, p_run_id, p_phase);
    end if;
    return v_units;
end;
$$;
