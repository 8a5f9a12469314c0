-- needs: 0018
-- Adds to a stage's counters: those of the site if the run is its current one, and those of the run's record if it
-- has ended. Counters never go below zero.
create or replace function clerk_add_to_counters(
    p_subdomain text, p_run_id bigint, p_stage text, p_completed integer, p_failed integer
) returns void
language sql volatile
set search_path = pg_catalog, public, pg_temp
as $$
    update sites s
    set fetch_completed = greatest(s.fetch_completed + case p_stage when 'fetch' then p_completed else 0 end, 0),
        fetch_failed = greatest(s.fetch_failed + case p_stage when 'fetch' then p_failed else 0 end, 0),
        ocr_completed = greatest(s.ocr_completed + case p_stage when 'ocr' then p_completed else 0 end, 0),
        ocr_failed = greatest(s.ocr_failed + case p_stage when 'ocr' then p_failed else 0 end, 0),
        compilation_completed =
            greatest(s.compilation_completed + case p_stage when 'compilation' then p_completed else 0 end, 0),
        compilation_failed =
            greatest(s.compilation_failed + case p_stage when 'compilation' then p_failed else 0 end, 0),
        extraction_completed =
            greatest(s.extraction_completed + case p_stage when 'extraction' then p_completed else 0 end, 0),
        extraction_failed =
            greatest(s.extraction_failed + case p_stage when 'extraction' then p_failed else 0 end, 0),
        deploy_completed = greatest(s.deploy_completed + case p_stage when 'deploy' then p_completed else 0 end, 0),
        deploy_failed = greatest(s.deploy_failed + case p_stage when 'deploy' then p_failed else 0 end, 0)
    where s.subdomain = p_subdomain and s.run_id = p_run_id;

    update pipeline_runs r
    set counters = jsonb_set(r.counters, array[p_stage], jsonb_build_object(
        'total', r.counters -> p_stage -> 'total',
        'completed', greatest((r.counters -> p_stage ->> 'completed')::integer + p_completed, 0),
        'failed', greatest((r.counters -> p_stage ->> 'failed')::integer + p_failed, 0)))
    where r.run_id = p_run_id and r.ended_at is not null;
$$;
