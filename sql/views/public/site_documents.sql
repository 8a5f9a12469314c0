-- needs: 0024
create view site_documents as
select i.subdomain, i.id, i.kind, i.meeting, i.date, i.occurrence, i.revision, coalesce(i.lineage_id, i.id) as lineage_id,
       i.source_url, i.sha256, i.size_bytes, i.page_count, i.storage_key,
       i.created_at as found_at, i.fetched_at, i.checked_at, i.superseded_at, i.removed_at_source, i.pdf_missing_since,
       i.fetch_error_code, i.fetch_error_message, i.fetch_failed_at,
       o.status as ocr_status, o.attempt_count as ocr_attempts, o.error_code as ocr_error_code,
       o.error_message as ocr_error_message, o.last_attempt_at as ocr_last_attempt_at, o.processed_at as ocr_processed_at,
       o.run_id as ocr_run_id, case when oc.settled_at >= oc.claimed_at then oc.settled_at - oc.claimed_at end as ocr_took,
       e.status as extraction_status, e.attempt_count as extraction_attempts, e.error_code as extraction_error_code,
       e.error_message as extraction_error_message, e.last_attempt_at as extraction_last_attempt_at,
       e.processed_at as extraction_processed_at, e.run_id as extraction_run_id,
       case when ec.settled_at >= ec.claimed_at then ec.settled_at - ec.claimed_at end as extraction_took,
       case when o.status = 'failed_terminal' or e.status = 'failed_terminal'
                 or i.sha256 is null and i.fetch_error_code is not null and coalesce(o.status <> 'processed', true)
            then 'failed'
            when o.status = 'processed' and coalesce(e.status = 'processed', true) then 'done'
            else 'open' end as state,
       i.date_origin, i.meeting_origin, i.kind_origin, o.job_id as ocr_job_id, e.job_id as extraction_job_id
-- Each join finds at most one row, so the planner removes those whose columns a query does not use.
from content_items i
left join content_item_pipeline_state o on o.content_item_id = i.id and o.pipeline = 'ocr'
left join content_item_pipeline_state e on e.content_item_id = i.id and e.pipeline = 'extraction'
left join job_claims oc on oc.job_id = o.job_id
left join job_claims ec on ec.job_id = e.job_id
where i.kind <> 'archive';

comment on view site_documents is
    'One row per document: source, state of each stage, errors. Filter by subdomain.';
comment on column site_documents.lineage_id is 'The same for all revisions of a document, also if its date changed.';
comment on column site_documents.superseded_at is 'Since when a newer revision is known; NULL for the newest.';
comment on column site_documents.ocr_attempts is 'Attempts in the last run that processed it. Likewise extraction_attempts.';
comment on column site_documents.ocr_took is
    'Duration of the last attempt; NULL while it runs, and after its job has been deleted. Likewise extraction_took.';
comment on column site_documents.state is
    'failed: permanently in a stage, or the download failed; open: a stage is still to come or to be repeated; done.';
comment on column site_documents.date_origin is
    'Where the date comes from: source (its listing), name (of the file), text (of the first page), metadata (title of the PDF), created (creation of the PDF) or modified (modification of the file), both on request only, operator. NULL: unknown.';
comment on column site_documents.meeting_origin is
    'Where the meeting''s name comes from: source, folder, name, text, default (of the site), operator. Likewise kind_origin.';
comment on column site_documents.ocr_job_id is
    'The job of the last attempt; it may have been deleted since (job_overview). Likewise extraction_job_id.';
