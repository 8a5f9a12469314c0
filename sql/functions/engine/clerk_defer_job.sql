-- needs: 0026
-- Inserts the job of a unit and returns its id. Callers insert many, one by one: the ids of the documents distribute their
-- jobs over as many turns as the site has open units in the stage.
create or replace function clerk_defer_job(p_subdomain text, p_run_id bigint, p_stage text, p_content_item_id bigint)
returns bigint
language sql volatile
set search_path = pg_catalog, public, pg_temp
as $$
    insert into procrastinate_jobs (queue_name, task_name, args, turn)
    select p_stage, p.task_name,
           jsonb_build_object('subdomain', p_subdomain, 'run_id', p_run_id, 'stage', p_stage,
                              'content_item_id', p_content_item_id,
                              'traceparent', clerk_traceparent(p_subdomain, p_run_id)),
           case when p_stage in ('ocr', 'extraction')
                then clerk_turn(clerk_first_turn(p_stage), mod(p_content_item_id, greatest(open.units, 1)), s.weight)
                else 0 end
    from stage_policy p
    join sites s on s.subdomain = p_subdomain
    cross join lateral (
        select case p_stage when 'ocr' then s.ocr_total - s.ocr_completed - s.ocr_failed
                            else s.extraction_total - s.extraction_completed - s.extraction_failed end as units
    ) open
    where p.stage = p_stage
    returning id
$$;
