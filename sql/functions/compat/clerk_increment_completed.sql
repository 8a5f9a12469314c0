-- needs: 0018
-- Public helper for scripts of legacy clerk. The engine does not use it, and it does not touch the ledger.
create or replace function clerk_increment_completed(p_subdomain text, p_stage text) returns void
language sql volatile
set search_path = pg_catalog, public, pg_temp
as $$
    update sites s
    set fetch_completed = s.fetch_completed + (p_stage = 'fetch')::integer,
        ocr_completed = s.ocr_completed + (p_stage = 'ocr')::integer,
        compilation_completed = s.compilation_completed + (p_stage = 'compilation')::integer,
        extraction_completed = s.extraction_completed + (p_stage = 'extraction')::integer,
        deploy_completed = s.deploy_completed + (p_stage = 'deploy')::integer,
        updated_at = date_trunc('second', clerk_now())
    where s.subdomain = p_subdomain
$$;
