-- needs: 0020
-- Ends units of one or several sites: ledger rows, counters and, for every phase that this completes, the coordinator,
-- exactly once. Returns how many were counted, how many were late (retried after their phase) and how many stale (the
-- ledger row belongs to another run or job).
create or replace function clerk_settle_units(
    p_ends clerk_unit_end[], out counted integer, out late integer, out stale integer
)
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
    v_now timestamptz := clerk_now();
    v_sites text[] := array(select distinct e.subdomain from unnest(p_ends) e);
    v_items bigint[] := array(select e.content_item_id from unnest(p_ends) e);
    v_counted bigint[];
    v_completed jsonb;
    v_phase record;
    v_end clerk_unit_end;
begin
    -- Lock order: all sites, by key, before the ledger. See sql/README.md.
    perform from sites s
    where s.subdomain = any (v_sites)
    order by s.subdomain
    for no key update;

    with ended as (
        update content_item_pipeline_state l
        set status = case when e.succeeded then 'processed' else 'failed_terminal' end,
            error_code = case when not e.succeeded then e.error_code end,
            error_message = case when not e.succeeded then left(e.error_message, 500) end,
            processed_at = case when e.succeeded then v_now end,
            updated_at = v_now
        from unnest(p_ends) e
        -- Besides the join, so that every cached plan looks up only these rows.
        where l.content_item_id = any (v_items) and l.content_item_id = e.content_item_id and l.pipeline = e.stage and l.run_id = e.run_id
          and l.job_id = e.job_id and l.status not in ('processed', 'failed_terminal')
        returning e.job_id, e.subdomain, e.run_id, e.stage, e.succeeded, e.error_code, e.error_message
    ), tally as (
        select s.subdomain, array_agg(u.job_id) as jobs,
               count(*) filter (where u.stage = 'fetch' and u.succeeded) as fetch_completed,
               count(*) filter (where u.stage = 'fetch' and not u.succeeded) as fetch_failed,
               count(*) filter (where u.stage = 'ocr' and u.succeeded) as ocr_completed,
               count(*) filter (where u.stage = 'ocr' and not u.succeeded) as ocr_failed,
               count(*) filter (where u.stage = 'compilation' and u.succeeded) as compilation_completed,
               count(*) filter (where u.stage = 'compilation' and not u.succeeded) as compilation_failed,
               count(*) filter (where u.stage = 'extraction' and u.succeeded) as extraction_completed,
               count(*) filter (where u.stage = 'extraction' and not u.succeeded) as extraction_failed,
               count(*) filter (where u.stage = 'deploy' and u.succeeded) as deploy_completed,
               count(*) filter (where u.stage = 'deploy' and not u.succeeded) as deploy_failed,
               max(u.job_id) filter (where not u.succeeded) as failed_job,
               clerk_phase(s.current_stage) as phase,
               not s.coordinator_enqueued
                   and count(*) filter (where clerk_phase(u.stage) = clerk_phase(s.current_stage))
                       >= greatest(clerk_units_left(s, clerk_phase(s.current_stage)), 1) as completes_phase
        from ended u
        join sites s on s.subdomain = any (v_sites) and s.subdomain = u.subdomain and s.run_id = u.run_id
        group by s.subdomain
    ), site as (
        update sites s
        set fetch_completed = s.fetch_completed + t.fetch_completed,
            fetch_failed = s.fetch_failed + t.fetch_failed,
            ocr_completed = s.ocr_completed + t.ocr_completed,
            ocr_failed = s.ocr_failed + t.ocr_failed,
            compilation_completed = s.compilation_completed + t.compilation_completed,
            compilation_failed = s.compilation_failed + t.compilation_failed,
            extraction_completed = s.extraction_completed + t.extraction_completed,
            extraction_failed = s.extraction_failed + t.extraction_failed,
            deploy_completed = s.deploy_completed + t.deploy_completed,
            deploy_failed = s.deploy_failed + t.deploy_failed,
            coordinator_enqueued = s.coordinator_enqueued or t.completes_phase,
            updated_at = date_trunc('second', v_now),
            last_error_stage = coalesce(f.stage, s.last_error_stage),
            last_error_message = case when f.stage is null then s.last_error_message
                                      else left(concat_ws(': ', f.error_code, f.error_message), 500) end,
            last_error_at = case when f.stage is null then s.last_error_at else v_now end
        from tally t
        left join ended f on f.job_id = t.failed_job
        where s.subdomain = any (v_sites) and s.subdomain = t.subdomain
        returning t.jobs, t.completes_phase, s.subdomain, s.run_id, t.phase
    )
    select array_agg(job.id order by job.id),
           jsonb_agg(distinct jsonb_build_object('subdomain', site.subdomain, 'run_id', site.run_id, 'phase', site.phase))
               filter (where site.completes_phase)
    into v_counted, v_completed
    from site
    cross join lateral unnest(site.jobs) job (id);

    for v_phase in
        select c.subdomain, c.run_id, c.phase
        from jsonb_to_recordset(v_completed) c (subdomain text, run_id bigint, phase integer)
        order by c.subdomain
    loop
        perform clerk_defer_coordinator(v_phase.subdomain, v_phase.run_id, v_phase.phase);
    end loop;

    counted := coalesce(cardinality(v_counted), 0);
    late := 0;
    stale := 0;
    if counted = cardinality(p_ends) then
        return;
    end if;
    for v_end in
        select e.* from unnest(p_ends) e where e.job_id <> all (coalesce(v_counted, '{}')) order by e.subdomain, e.job_id
    loop
        if clerk_settle_late_unit(v_end.job_id, v_end.subdomain, v_end.run_id, v_end.stage, v_end.content_item_id,
                                  v_end.succeeded) then
            late := late + 1;
            continue;
        end if;
        stale := stale + 1;
        -- An operator action that closed the unit itself is not an ignored result.
        if coalesce(current_setting('clerk.actor', true), '') = '' then
            insert into ignored_results (why, job_id, status, holder, subdomain, run_id, stage, content_item_id)
            values ('stale', v_end.job_id, case when v_end.succeeded then 'processed' else 'failed_terminal' end,
                    current_setting('application_name'), v_end.subdomain, v_end.run_id, v_end.stage,
                    v_end.content_item_id);
        end if;
    end loop;
end;
$$;
