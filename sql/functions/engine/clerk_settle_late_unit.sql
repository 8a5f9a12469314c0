-- needs: 0018
-- The result of a unit that was retried after its phase. A failure changes nothing. A success corrects the counters and
-- makes the site dirty, so that a refresh run compiles and deploys the document.
create or replace function clerk_settle_late_unit(
    p_job_id bigint, p_subdomain text, p_run_id bigint, p_stage text, p_content_item_id bigint, p_succeeded boolean
) returns boolean
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
begin
    update content_item_pipeline_state l
    set status = case when p_succeeded then 'processed' else l.status end,
        error_code = case when not p_succeeded then l.error_code end,
        error_message = case when not p_succeeded then l.error_message end,
        processed_at = case when p_succeeded then clerk_now() end,
        reopened_at = null,
        updated_at = clerk_now()
    where l.content_item_id = p_content_item_id and l.pipeline = p_stage and l.run_id = p_run_id
      and l.job_id = p_job_id and l.status = 'failed_terminal' and l.reopened_at is not null;
    if not found then
        return false;
    end if;
    if p_succeeded then
        update sites s
        set dirty = true, updated_at = date_trunc('second', clerk_now()) where s.subdomain = p_subdomain;
        perform clerk_add_to_counters(p_subdomain, p_run_id, p_stage, 1, -1);
        perform clerk_defer_refresh(p_subdomain);
    end if;
    return true;
end;
$$;
