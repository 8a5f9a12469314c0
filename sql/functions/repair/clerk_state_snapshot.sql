-- needs: 0018
-- The rows that a repair concerns, for reconcile_log: the site, its run and transitions, and the unit if there is one.
create or replace function clerk_state_snapshot(p_subdomain text, p_run_id bigint, p_content_item_id bigint, p_stage text)
returns jsonb
language sql stable
set search_path = pg_catalog, public, pg_temp
as $$
    select jsonb_strip_nulls(jsonb_build_object(
        'site', (select jsonb_build_object(
                     'current_stage', s.current_stage, 'run_id', s.run_id, 'outcome', s.outcome,
                     'coordinator_enqueued', s.coordinator_enqueued, 'dirty', s.dirty, 'updated_at', s.updated_at,
                     'counters', clerk_counters(s))
                 from sites s where s.subdomain = p_subdomain),
        'run', (select jsonb_build_object('run_id', r.run_id, 'ended_at', r.ended_at, 'outcome', r.outcome)
                from pipeline_runs r where r.run_id = p_run_id),
        'transitions', (select jsonb_object_agg(t.phase, to_jsonb(t) - 'run_id' - 'phase')
                        from pipeline_transitions t where t.run_id = p_run_id),
        'unit', (select to_jsonb(l) from content_item_pipeline_state l
                 where l.content_item_id = p_content_item_id and l.pipeline = p_stage)))
$$;
