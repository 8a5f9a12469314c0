-- needs: 0018
-- Retries documents that failed in a stage; documents that have not failed are skipped. If the stage is current, their
-- units are opened again. If it is still to come, the active run includes them. If it has ended, a new run processes only
-- them and what depends on them; it begins with fetch if their file is missing or altered.
create or replace function clerk_retry_units(
    p_subdomain text, p_stage text, p_items bigint[], out run_id bigint, out units integer
)
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_site sites;
    v_items bigint[];
begin
    perform set_config('clerk.actor', 'clerk_retry_units', true);
    if clerk_phase(p_stage) is null then
        raise exception using errcode = 'KL004', message = format('%s is not a stage', p_stage);
    end if;
    select * into v_site from sites s where s.subdomain = p_subdomain for no key update;
    if not found then
        raise exception using errcode = 'KL001', message = format('there is no site %s', p_subdomain);
    end if;
    select array_agg(l.content_item_id order by l.content_item_id) into v_items
    from content_items i
    join content_item_pipeline_state l on l.content_item_id = i.id
    where i.subdomain = p_subdomain and i.id = any (p_items) and l.pipeline = p_stage and l.status = 'failed_terminal';
    run_id := v_site.run_id;
    units := coalesce(cardinality(v_items), 0);
    if units = 0 then
        return;
    end if;

    if clerk_run_is_active(v_site.run_id) and clerk_phase(v_site.current_stage) = clerk_phase(p_stage)
       and not v_site.coordinator_enqueued then
        units := clerk_reopen_units(p_subdomain, v_site.run_id, p_stage, v_items);
    elsif clerk_run_is_active(v_site.run_id) and clerk_phase(v_site.current_stage) < clerk_phase(p_stage) then
        -- The phase will include a unit without a ledger row. Superseding the run would discard its earlier phases.
        delete from content_item_pipeline_state l where l.content_item_id = any (v_items) and l.pipeline = p_stage;
    elsif p_stage = 'ocr' and exists (
        select from content_items i
        join content_item_pipeline_state l on l.content_item_id = i.id and l.pipeline = p_stage
        where i.id = any (v_items)
          and (i.sha256 is null and i.fetch_error_code is not null or l.error_code in ('PdfMissing', 'PdfAltered'))
    ) then
        -- Without a new file, OCR would fail again: the run begins with fetch.
        delete from content_item_pipeline_state l where l.content_item_id = any (v_items) and l.pipeline = p_stage;
        perform clerk_supersede_run(p_subdomain, format('retry of %s', p_stage));
        run_id := clerk_start_run(p_subdomain, format('retry of %s', p_stage));
    else
        perform clerk_supersede_run(p_subdomain, format('retry of %s', p_stage));
        run_id := clerk_start_run(p_subdomain, format('retry of %s', p_stage), false, clerk_phase(p_stage),
                                  case when p_stage in ('ocr', 'extraction') then v_items end);
    end if;
    insert into operator_actions (action, subdomain, run_id, detail)
    values ('retry', p_subdomain, run_id, jsonb_build_object('stage', p_stage, 'units', units));
end;
$$;
