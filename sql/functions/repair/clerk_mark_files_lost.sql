-- needs: 0018
-- Marks a processed unit as failed because its files are missing or damaged, so that the next run processes it again.
-- If the PDF is missing as well (p_pdf_missing), that run is one after a fetch has downloaded it; until then the archive
-- keeps the document's pages. False if nothing changed, and while a run is active, because its other units may use these
-- files.
create or replace function clerk_mark_files_lost(
    p_content_item_id bigint, p_stage text, p_message text, p_pdf_missing boolean default false
) returns boolean
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_subdomain text := (select i.subdomain from content_items i where i.id = p_content_item_id);
    v_run_id bigint;
    v_changed boolean;
begin
    perform set_config('clerk.actor', 'clerk_mark_files_lost', true);
    select s.run_id into v_run_id from sites s where s.subdomain = v_subdomain for no key update;
    if clerk_run_is_active(v_run_id) then
        return false;
    end if;
    update content_item_pipeline_state l
    set status = 'failed_terminal', error_code = 'FilesLost', error_message = left(p_message, 500),
        processed_at = null, updated_at = clerk_now()
    where l.content_item_id = p_content_item_id and l.pipeline = p_stage and l.status = 'processed'
    returning l.run_id into v_run_id;
    v_changed := found;
    if v_changed then
        perform clerk_add_to_counters(v_subdomain, v_run_id, p_stage, -1, 1);
    end if;
    if p_stage = 'ocr' then
        update content_items i
        set pdf_missing_since = case when p_pdf_missing then coalesce(i.pdf_missing_since, clerk_now()) end,
            updated_at = clerk_now()
        where i.id = p_content_item_id and (i.pdf_missing_since is not null) <> p_pdf_missing;
        v_changed := v_changed or found;
    end if;
    return v_changed;
end;
$$;
