-- needs: 0024
-- Units of the current run that have lost their ledger row, for stages where the site counts more units than the
-- ledger. In the current phase: whatever the phase would start with now. In earlier phases: documents without a row.
-- The next run repeats site-level units (fetch, compilation, deploy) anyway.
create or replace function clerk_missing_units(p_subdomain text)
returns table (stage text, content_item_id bigint, late boolean)
language sql stable
set search_path = pg_catalog, public, pg_temp
as $$
    with site as (
        select s.run_id, case when clerk_run_is_active(s.run_id) then clerk_phase(s.current_stage) else 5 end as phase
        from sites s
        where s.subdomain = p_subdomain
    ), short as (
        select n.stage
        from sites s
        join expected_counters c on c.subdomain = s.subdomain
        cross join lateral (values ('fetch', s.fetch_total, c.fetch_total), ('ocr', s.ocr_total, c.ocr_total),
                                   ('compilation', s.compilation_total, c.compilation_total),
                                   ('extraction', s.extraction_total, c.extraction_total),
                                   ('deploy', s.deploy_total, c.deploy_total)) as n (stage, counted, in_ledger)
        where s.subdomain = p_subdomain and n.counted > n.in_ledger
    )
    select u.stage, u.content_item_id, false
    from site
    cross join lateral clerk_units_of_phase(p_subdomain, site.phase, null) u
    join short on short.stage = u.stage
    where not exists (select from content_item_pipeline_state l
                      where l.content_item_id = u.content_item_id and l.pipeline = u.stage and l.run_id = site.run_id)
    union all
    select short.stage, i.id, true
    from site
    join short on short.stage in ('ocr', 'extraction') and clerk_phase(short.stage) < site.phase
    join content_items i on i.subdomain = p_subdomain and i.kind <> 'archive' and i.superseded_at is null
    where not exists (select from content_item_pipeline_state l
                      where l.content_item_id = i.id and l.pipeline = short.stage)
      and (short.stage = 'ocr'
           or exists (select from content_item_pipeline_state l
                      where l.content_item_id = i.id and l.pipeline = 'ocr' and l.status = 'processed'))
    order by 1, 2
$$;
