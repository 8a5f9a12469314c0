-- needs: 0018
-- Public helper for scripts of legacy clerk. The engine does not use it, and it does not touch the ledger.
create or replace function clerk_initialize_stage(p_subdomain text, p_stage text, p_total_jobs integer) returns void
language sql volatile
set search_path = pg_catalog, public, pg_temp
as $$
    update sites s
    set current_stage = p_stage, coordinator_enqueued = false, updated_at = date_trunc('second', clerk_now()),
        started_at = coalesce(s.started_at, clerk_now()),
        fetch_total = case p_stage when 'fetch' then p_total_jobs else s.fetch_total end,
        fetch_completed = case p_stage when 'fetch' then 0 else s.fetch_completed end,
        fetch_failed = case p_stage when 'fetch' then 0 else s.fetch_failed end,
        ocr_total = case p_stage when 'ocr' then p_total_jobs else s.ocr_total end,
        ocr_completed = case p_stage when 'ocr' then 0 else s.ocr_completed end,
        ocr_failed = case p_stage when 'ocr' then 0 else s.ocr_failed end,
        compilation_total = case p_stage when 'compilation' then p_total_jobs else s.compilation_total end,
        compilation_completed = case p_stage when 'compilation' then 0 else s.compilation_completed end,
        compilation_failed = case p_stage when 'compilation' then 0 else s.compilation_failed end,
        extraction_total = case p_stage when 'extraction' then p_total_jobs else s.extraction_total end,
        extraction_completed = case p_stage when 'extraction' then 0 else s.extraction_completed end,
        extraction_failed = case p_stage when 'extraction' then 0 else s.extraction_failed end,
        deploy_total = case p_stage when 'deploy' then p_total_jobs else s.deploy_total end,
        deploy_completed = case p_stage when 'deploy' then 0 else s.deploy_completed end,
        deploy_failed = case p_stage when 'deploy' then 0 else s.deploy_failed end
    where s.subdomain = p_subdomain
$$;
