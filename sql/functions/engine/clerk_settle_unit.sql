-- needs: 0018
-- Ends a unit: ledger row, counter and, with the last unit of a phase, the coordinator, exactly once. Returns
-- 'counted', 'late' (retried after its phase) or 'stale' (the ledger row belongs to another run or job).
create or replace function clerk_settle_unit(
    p_job_id bigint, p_subdomain text, p_run_id bigint, p_stage text, p_content_item_id bigint,
    p_succeeded boolean, p_error_code text, p_error_message text
) returns text
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_site sites;
    v_now timestamptz := clerk_now();
    v_phase integer := clerk_phase(p_stage);
    v_last boolean;
begin
    -- Lock order: the site before the ledger. See sql/README.md.
    select * into v_site from sites s where s.subdomain = p_subdomain for no key update;

    update content_item_pipeline_state l
    set status = case when p_succeeded then 'processed' else 'failed_terminal' end,
        error_code = case when not p_succeeded then p_error_code end,
        error_message = case when not p_succeeded then left(p_error_message, 500) end,
        processed_at = case when p_succeeded then v_now end,
        updated_at = v_now
    where l.content_item_id = p_content_item_id and l.pipeline = p_stage and l.run_id = p_run_id
      and l.job_id = p_job_id and l.status in ('pending', 'in_progress', 'failed_retryable');

    if not found or v_site.run_id is distinct from p_run_id then
        if clerk_settle_late_unit(p_job_id, p_subdomain, p_run_id, p_stage, p_content_item_id, p_succeeded) then
            return 'late';
        end if;
        -- An operator action that closed the unit itself is not an ignored result.
        if coalesce(current_setting('clerk.actor', true), '') = '' then
            insert into ignored_results (why, job_id, status, holder, subdomain, run_id, stage, content_item_id)
            values ('stale', p_job_id, case when p_succeeded then 'processed' else 'failed_terminal' end,
                    current_setting('application_name'), p_subdomain, p_run_id, p_stage, p_content_item_id);
        end if;
        return 'stale';
    end if;

    v_last := clerk_units_left(v_site, v_phase) <= 1 and not v_site.coordinator_enqueued and clerk_phase(v_site.current_stage) = v_phase;

    update sites s
    set fetch_completed = s.fetch_completed + (p_succeeded and p_stage = 'fetch')::integer,
        fetch_failed = s.fetch_failed + (not p_succeeded and p_stage = 'fetch')::integer,
        ocr_completed = s.ocr_completed + (p_succeeded and p_stage = 'ocr')::integer,
        ocr_failed = s.ocr_failed + (not p_succeeded and p_stage = 'ocr')::integer,
        compilation_completed = s.compilation_completed + (p_succeeded and p_stage = 'compilation')::integer,
        compilation_failed = s.compilation_failed + (not p_succeeded and p_stage = 'compilation')::integer,
        extraction_completed = s.extraction_completed + (p_succeeded and p_stage = 'extraction')::integer,
        extraction_failed = s.extraction_failed + (not p_succeeded and p_stage = 'extraction')::integer,
        deploy_completed = s.deploy_completed + (p_succeeded and p_stage = 'deploy')::integer,
        deploy_failed = s.deploy_failed + (not p_succeeded and p_stage = 'deploy')::integer,
        coordinator_enqueued = s.coordinator_enqueued or v_last,
        updated_at = date_trunc('second', v_now),
        last_error_stage = case when p_succeeded then s.last_error_stage else p_stage end,
        last_error_message = case when p_succeeded then s.last_error_message
                                  else left(concat_ws(': ', p_error_code, p_error_message), 500) end,
        last_error_at = case when p_succeeded then s.last_error_at else v_now end
    where s.subdomain = p_subdomain;

    if v_last then
        perform clerk_defer_coordinator(p_subdomain, p_run_id, v_phase);
    end if;
    return 'counted';
end;
$$;
