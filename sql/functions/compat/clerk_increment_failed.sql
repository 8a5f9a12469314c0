-- needs: 0018
-- Public helper for scripts of legacy clerk. The engine does not use it, and it does not touch the ledger.
create or replace function clerk_increment_failed(p_subdomain text, p_stage text, p_message text, p_class text)
returns void
language sql volatile
set search_path = pg_catalog, public, pg_temp
as $$
    update sites s
    set fetch_failed = s.fetch_failed + (p_stage = 'fetch')::integer,
        ocr_failed = s.ocr_failed + (p_stage = 'ocr')::integer,
        compilation_failed = s.compilation_failed + (p_stage = 'compilation')::integer,
        extraction_failed = s.extraction_failed + (p_stage = 'extraction')::integer,
        deploy_failed = s.deploy_failed + (p_stage = 'deploy')::integer,
        last_error_stage = p_stage,
        last_error_message = left(concat_ws(': ', p_class, p_message), 500),
        last_error_at = clerk_now(),
        updated_at = date_trunc('second', clerk_now())
    where s.subdomain = p_subdomain
$$;
