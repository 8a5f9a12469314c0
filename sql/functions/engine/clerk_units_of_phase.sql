-- needs: 0024
-- The units of a phase. With p_units: those documents. Without: documents that are not processed. A permanently failed
-- document is left out until an operator retries it or fetch has a new version or error; other failures return with the
-- next run. OCR leaves out superseded revisions, and documents whose PDF is missing.
create or replace function clerk_units_of_phase(p_subdomain text, p_phase integer, p_units bigint[])
returns table (content_item_id bigint, stage text)
language sql stable
set search_path = pg_catalog, public, pg_temp
as $$
    select i.id, s.stage
    from content_items i
    join (values (1, 'fetch'), (3, 'compilation'), (4, 'deploy')) as s (phase, stage) on s.phase = p_phase
    where i.subdomain = p_subdomain and i.kind = 'archive'
    union all
    select i.id, s.stage
    from content_items i
    join (values (2, 'ocr'), (3, 'extraction')) as s (phase, stage) on s.phase = p_phase
    left join content_item_pipeline_state own on own.content_item_id = i.id and own.pipeline = s.stage
    left join content_item_pipeline_state ocr on ocr.content_item_id = i.id and ocr.pipeline = 'ocr'
    where i.subdomain = p_subdomain and i.kind <> 'archive'
      and (s.stage = 'ocr' or ocr.status = 'processed')
      and case when p_units is not null then i.id = any (p_units)
               when s.stage = 'ocr' and (i.superseded_at is not null or i.pdf_missing_since is not null) then false
               else own.status is null
                    or own.status <> 'processed' and not clerk_is_permanent_failure(own.status, own.error_code)
                    -- Fetched again since it failed.
                    or s.stage = 'ocr' and own.status <> 'processed'
                       and greatest(i.fetched_at, i.fetch_failed_at) > own.updated_at
                    -- Its text is newer than the extraction.
                    or s.stage = 'extraction' and ocr.processed_at > coalesce(own.processed_at, own.updated_at)
          end
$$;
