-- needs: 0024
-- The outcome with which a run ends after this phase, or NULL if the run continues. Failed documents never stop a site.
-- No documents, no readable document and no new document are three different outcomes. The reason says how many entries
-- of the source the fetch of the run skipped. A run whose fetch reached its budget is partial, and so is one that
-- publishes an archive without a document that failed in an earlier run.
create or replace function clerk_phase_outcome(p_subdomain text, p_phase integer, out outcome text, out reason text)
language plpgsql stable
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_site sites;
    v_documents integer;
    v_readable integer;
    v_unread integer;
    v_without_findings integer;
    v_current boolean;
    v_skipped integer;
    v_budget text;
begin
    select * into v_site from sites s where s.subdomain = p_subdomain;
    select e.reason into v_budget from skipped_entries e
    where e.subdomain = p_subdomain and e.source_key = 'budget of the run' and e.run_id = v_site.run_id
      and e.reason_code = 'BudgetExceeded';
    if p_phase in (2, 4) then
        select greatest(v_site.ocr_failed, count(*) filter (where l.pipeline = 'ocr')),
               greatest(v_site.extraction_failed, count(*) filter (where l.pipeline = 'extraction'))
        into v_unread, v_without_findings
        from content_items i
        join content_item_pipeline_state l on l.content_item_id = i.id
        where i.subdomain = p_subdomain and i.kind <> 'archive' and l.pipeline in ('ocr', 'extraction')
          and clerk_is_permanent_failure(l.status, l.error_code);
    end if;

    if p_phase = 2 then
        select count(*), count(*) filter (where l.status = 'processed') into v_documents, v_readable
        from content_items i
        left join content_item_pipeline_state l on l.content_item_id = i.id and l.pipeline = 'ocr'
        where i.subdomain = p_subdomain and i.kind <> 'archive';
        -- The published archive contains every processed document, with its extraction. A run that was cancelled or
        -- failed between OCR and deploy leaves one that does not; a retry of an extraction deletes its row, and one
        -- whose job was deleted or cancelled is due again.
        select exists (
            select from content_items i
            join content_item_pipeline_state d on d.content_item_id = i.id and d.pipeline = 'deploy'
            join content_item_pipeline_state c on c.content_item_id = i.id and c.pipeline = 'compilation'
            where i.subdomain = p_subdomain and i.kind = 'archive' and d.status = 'processed' and c.status = 'processed'
              and d.processed_at >= c.processed_at
              and not exists (
                  select from content_items document
                  join content_item_pipeline_state l on l.content_item_id = document.id and l.pipeline = 'ocr'
                  left join content_item_pipeline_state e on e.content_item_id = document.id and e.pipeline = 'extraction'
                  where document.subdomain = p_subdomain and l.status = 'processed'
                    and (l.processed_at > c.processed_at or e.content_item_id is null
                         or e.status <> 'processed' and not clerk_is_permanent_failure(e.status, e.error_code))
              )
        ) into v_current;
        if v_documents = 0 and v_site.fetch_failed > 0 then
            outcome := 'failed'; reason := 'fetching failed, and there are no documents from before';
        elsif v_documents = 0 then
            outcome := 'no_documents'; reason := 'the source has no documents';
        elsif v_readable = 0 then
            outcome := 'failed'; reason := case when v_documents = 1 then 'the only document could not be read'
                                               else format('none of %s documents could be read', v_documents) end;
        elsif v_site.ocr_completed = 0 and v_current and not v_site.dirty then
            if v_site.fetch_failed > 0 then
                outcome := 'failed'; reason := 'fetching failed; the published archive stays as it was';
            elsif v_site.ocr_failed > 0 then
                outcome := 'partial'; reason := format('%s new document%s, none readable', v_site.ocr_failed,
                                                       case when v_site.ocr_failed = 1 then '' else 's' end);
            else
                outcome := 'unchanged';
                reason := concat_ws('; ', 'no new documents', clerk_missing_documents(v_unread, v_without_findings));
            end if;
        end if;
    elsif p_phase = 3 and v_site.compilation_completed = 0 then
        outcome := 'failed'; reason := 'compilation failed; the published archive stays as it was';
    elsif p_phase = 4 then
        if v_site.deploy_completed = 0 then
            outcome := 'failed'; reason := 'deploy or a post-deploy hook failed';
        elsif v_site.fetch_failed + v_unread + v_without_findings > 0 then
            outcome := 'partial';
            reason := concat_ws(', ', case when v_site.fetch_failed > 0 then 'fetching failed' end,
                                clerk_missing_documents(v_unread, v_without_findings));
        else
            outcome := 'succeeded'; reason := 'all done';
        end if;
    end if;

    if v_budget is not null and outcome is not null then
        reason := case when outcome in ('succeeded', 'unchanged', 'no_documents') then v_budget
                       else concat_ws('; ', reason, v_budget) end;
        outcome := case when outcome in ('succeeded', 'unchanged', 'no_documents') then 'partial' else outcome end;
    end if;
    select r.skipped into v_skipped from pipeline_runs r where r.run_id = v_site.run_id;
    if v_skipped > 0 then
        reason := format('%s; %s skipped (clerk site skipped %s)', reason,
                         case when v_skipped = 1 then '1 entry of the source was'
                              else v_skipped || ' entries of the source were' end, p_subdomain);
    end if;
end;
$$;
