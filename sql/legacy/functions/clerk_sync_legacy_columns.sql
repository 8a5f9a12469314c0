-- needs: 0018
-- until: cleanup
-- Writes the status columns of legacy clerk, for programs that still read them. A failed or cancelled run does not change
-- what is published: a site with an archive stays `deployed`, one without keeps its status. Times are text in UTC, as
-- legacy clerk wrote them.
create or replace function clerk_sync_legacy_columns() returns trigger
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_now constant text := to_char(clerk_now() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS');
begin
    if tg_op = 'INSERT' then
        new.status := 'new';
        return new;
    end if;
    new.last_updated := v_now;
    if old.current_stage = 'deploy' and new.current_stage = 'completed' and new.deploy_completed > 0 then
        new.last_deployed := v_now;
    end if;
    if new.current_stage = 'extraction' then
        new.extraction_status := 'in_progress';
    elsif old.current_stage = 'extraction' then
        if new.extraction_completed > 0 or new.extraction_failed = 0 and new.current_stage = 'deploy' then
            new.extraction_status := 'completed';
            new.last_extracted := v_now;
        else
            new.extraction_status := case when new.extraction_failed > 0 then 'failed' else 'pending' end;
        end if;
    elsif new.extraction_status = 'in_progress' then
        new.extraction_status := 'pending';
    end if;
    new.status := case
        when new.current_stage is null then 'new'
        when new.current_stage = 'fetch' then 'fetching'
        when new.current_stage = 'ocr' then 'needs_ocr'
        when new.current_stage = 'compilation' then 'needs_compilation'
        when new.current_stage = 'extraction' then 'extracting'
        when new.current_stage = 'deploy' then 'needs_deploy'
        when new.outcome = 'no_documents' then 'no_documents'
        when new.outcome in ('succeeded', 'partial', 'unchanged') or new.last_deployed <> '' then 'deployed'
        else new.status end;
    return new;
end;
$$;
