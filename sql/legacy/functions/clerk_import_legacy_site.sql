-- needs: 0018
-- until: cleanup
-- Imports a site of legacy clerk with the documents found on disk (p_documents: an object per document): inserts content
-- items, ledger rows and an open run in p_phase, in one transaction. No job is deferred: reconciliation finds the open run
-- without jobs and defers them. The site keeps its times. p_phase null: documents only, without a run.
-- Returns the run, or null if there is none. A site that has had a run is not changed.
create or replace function clerk_import_legacy_site(
    p_subdomain text, p_documents jsonb, p_phase integer, p_started_at timestamptz default null,
    p_updated_at timestamptz default null
) returns bigint
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_site sites;
    v_run_id bigint;
    -- Not the whole row: other columns of a legacy row may hold JSON that jsonb rejects.
    v_before jsonb;
begin
    perform set_config('clerk.actor', 'clerk_import_legacy_site', true);
    select * into v_site from sites s where s.subdomain = p_subdomain for no key update;
    if not found then
        raise exception using errcode = 'KL001', message = format('there is no site %s', p_subdomain);
    end if;
    if v_site.run_id is not null then
        return null;
    end if;

    select to_jsonb(legacy) into v_before
    from (select v_site.status, v_site.extraction_status, v_site.last_updated, v_site.last_deployed,
                 v_site.last_extracted, v_site.current_stage, v_site.coordinator_enqueued, v_site.started_at,
                 v_site.updated_at, v_site.fetch_total, v_site.fetch_completed, v_site.fetch_failed,
                 v_site.ocr_total, v_site.ocr_completed, v_site.ocr_failed,
                 v_site.compilation_total, v_site.compilation_completed, v_site.compilation_failed,
                 v_site.extraction_total, v_site.extraction_completed, v_site.extraction_failed,
                 v_site.deploy_total, v_site.deploy_completed, v_site.deploy_failed) legacy;

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
        values (p_subdomain, 'migrated from legacy clerk', coalesce(v_site.started_at, p_started_at, clerk_now()))
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

    insert into reconcile_log (reconciliation, subdomain, run_id, stage, found, done, why, before, after)
    select gen_random_uuid(), p_subdomain, v_run_id, o.current_stage, 'an unfinished run of legacy clerk',
           format('%s/%s completed, %s failed', o.ocr_completed, o.ocr_total, o.ocr_failed),
           'migrated from legacy clerk', v_before, to_jsonb(o)
    from pipeline_overview o
    where o.subdomain = p_subdomain;
    return v_run_id;
end;
$$;
