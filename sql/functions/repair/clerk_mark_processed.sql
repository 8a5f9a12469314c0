-- needs: 0018
-- A document whose page texts are complete in storage becomes processed without OCR. An open unit ends together with
-- its waiting job, as if a worker had finished it. A unit without a ledger row, or with error FilesLost, becomes
-- processed, and the site becomes dirty. False if there is nothing to do, or if a worker has the job.
create or replace function clerk_mark_processed(p_content_item_id bigint, p_page_count integer) returns boolean
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_subdomain text := (select i.subdomain from content_items i where i.id = p_content_item_id);
    v_unit content_item_pipeline_state;
begin
    -- Locks the site, and gives an open unit without a job one, which ends below.
    perform clerk_redefer_unit(p_content_item_id, 'ocr');
    perform set_config('clerk.actor', 'clerk_mark_processed', true);
    select * into v_unit from content_item_pipeline_state l
    where l.content_item_id = p_content_item_id and l.pipeline = 'ocr'
    for no key update;

    if v_unit.status in ('pending', 'in_progress', 'failed_retryable') then
        -- Never waits for a job row: a worker that claims the job now finds every page done.
        update procrastinate_jobs j set status = 'succeeded'
        where j.id in (select w.id from procrastinate_jobs w where w.id = v_unit.job_id and w.status = 'todo'
                       for update skip locked);
        if not found then
            return false;
        end if;
    elsif v_unit.status is null or v_unit.error_code = 'FilesLost' then
        insert into content_item_pipeline_state as l (content_item_id, pipeline, status, processed_at)
        values (p_content_item_id, 'ocr', 'processed', clerk_now())
        on conflict (content_item_id, pipeline) do update
        set status = 'processed', error_code = null, error_message = null, processed_at = clerk_now(),
            updated_at = clerk_now();
        if v_unit.status is not null then
            perform clerk_add_to_counters(v_subdomain, v_unit.run_id, 'ocr', 1, -1);
        end if;
        update sites s set dirty = true, updated_at = date_trunc('second', clerk_now()) where s.subdomain = v_subdomain;
        perform clerk_defer_refresh(v_subdomain);
    else
        return false;
    end if;
    update content_items i
    set page_count = p_page_count, pdf_missing_since = null, updated_at = clerk_now()
    where i.id = p_content_item_id;
    return true;
end;
$$;
