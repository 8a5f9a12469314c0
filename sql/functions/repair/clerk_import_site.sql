-- needs: 0018
-- Imports a site that has no run, with the documents found on disk (p_documents: an object per document): inserts content
-- items, ledger rows and an open run in p_phase, in one transaction. No job is deferred: reconciliation finds the open run
-- without jobs and defers them. The site keeps its times. p_phase null: documents only, without a run.
-- Returns the run, or null if there is none. A site that has had a run is not changed.
create or replace function clerk_import_site(
    p_subdomain text, p_documents jsonb, p_phase integer, p_reason text, p_started_at timestamptz default null,
    p_updated_at timestamptz default null
) returns bigint
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_site sites;
    v_run_id bigint;
begin
    perform set_config('clerk.actor', 'clerk_import_site', true);
    select * into v_site from sites s where s.subdomain = p_subdomain for no key update;
    if not found then
        raise exception using errcode = 'KL001', message = format('there is no site %s', p_subdomain);
    end if;
    if v_site.run_id is not null then
        return null;
    end if;

    insert into content_items (subdomain, kind) values (p_subdomain, 'archive') on conflict do nothing;
    insert into content_items (subdomain, kind, meeting, date, occurrence, revision, sha256, size_bytes, page_count,
                               storage_key)
    select p_subdomain, d.kind, d.meeting, d.date, d.occurrence, d.revision, d.sha256, d.size_bytes, d.page_count,
           d.storage_key
    from jsonb_to_recordset(p_documents) as d (
        kind text, meeting text, date date, occurrence smallint, revision smallint, sha256 text, size_bytes bigint,
        page_count integer, storage_key text)
    on conflict do nothing;
    if p_phase is not null then
        insert into pipeline_runs (subdomain, reason, started_at)
        values (p_subdomain, p_reason, coalesce(v_site.started_at, p_started_at, clerk_now()))
        returning run_id into v_run_id;
    end if;

    -- A pending unit gets its row when its phase starts; finished units get theirs now.
    insert into content_item_pipeline_state (content_item_id, pipeline, status, error_code, error_message,
                                             processed_at, run_id)
    select i.id, 'ocr', d.status, d.error_code, left(d.error_message, 500), d.processed_at,
           case when p_phase = 2 then v_run_id end
    from jsonb_to_recordset(p_documents) as d (
        kind text, meeting text, date date, occurrence smallint, revision smallint, status text, error_code text,
        error_message text, processed_at timestamptz)
    join content_items i on i.subdomain = p_subdomain
                        and (i.kind, i.meeting, i.date, i.occurrence, i.revision)
                            = (d.kind, d.meeting, d.date, d.occurrence, d.revision)
    where p_phase = 2 or d.status <> 'pending'
    on conflict (content_item_id, pipeline) do update set run_id = excluded.run_id;
    if p_phase is null then
        return null;
    end if;
    if p_phase = 1 then
        insert into content_item_pipeline_state (content_item_id, pipeline, run_id)
        select i.id, 'fetch', v_run_id from content_items i where i.subdomain = p_subdomain and i.kind = 'archive';
    end if;

    update sites s
    set run_id = v_run_id, outcome = null, coordinator_enqueued = false,
        current_stage = case p_phase when 1 then 'fetch' else 'ocr' end,
        started_at = coalesce(s.started_at, p_started_at), updated_at = coalesce(s.updated_at, p_updated_at),
        fetch_total = 0, fetch_completed = 0, fetch_failed = 0, ocr_total = 0, ocr_completed = 0, ocr_failed = 0,
        compilation_total = 0, compilation_completed = 0, compilation_failed = 0,
        extraction_total = 0, extraction_completed = 0, extraction_failed = 0,
        deploy_total = 0, deploy_completed = 0, deploy_failed = 0
    where s.subdomain = p_subdomain;
    update sites s
    set fetch_total = n.fetch_total, ocr_total = n.ocr_total, ocr_completed = n.ocr_completed, ocr_failed = n.ocr_failed
    from expected_counters n
    where s.subdomain = p_subdomain and n.subdomain = s.subdomain;
    return v_run_id;
end;
$$;
