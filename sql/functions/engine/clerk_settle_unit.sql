-- needs: 0020
-- Ends one unit. Returns 'counted', 'late' (retried after its phase) or 'stale' (the ledger row belongs to another run
-- or job).
create or replace function clerk_settle_unit(
    p_job_id bigint, p_subdomain text, p_run_id bigint, p_stage text, p_content_item_id bigint,
    p_succeeded boolean, p_error_code text, p_error_message text
) returns text
language sql volatile
set search_path = pg_catalog, public, pg_temp
as $$
    select case when s.counted > 0 then 'counted' when s.late > 0 then 'late' else 'stale' end
    from clerk_settle_units(array[row(p_job_id, p_subdomain, p_run_id, p_stage, p_content_item_id, p_succeeded,
                                      p_error_code, p_error_message)::clerk_unit_end]) s
$$;
