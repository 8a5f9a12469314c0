-- needs: 0026
create view current_runs as
select s.subdomain, s.name, s.current_stage, clerk_phase(s.current_stage) as phase, s.outcome, s.updated_at,
       s.coordinator_enqueued, s.dirty, s.paused_at, s.paused_by, s.run_interval, s.updated_at + s.run_interval as due_at,
       s.last_error_stage, s.last_error_message, s.last_error_at,
       s.fetch_total, s.fetch_completed, s.fetch_failed,
       s.ocr_total, s.ocr_completed, s.ocr_failed,
       s.compilation_total, s.compilation_completed, s.compilation_failed,
       s.extraction_total, s.extraction_completed, s.extraction_failed,
       s.deploy_total, s.deploy_completed, s.deploy_failed,
       r.run_id, r.reason, r.started_at, r.ended_at, r.outcome_reason,
       published.deployed_at, published.announced_at, r.skipped, r.skipped_examples, s.weight
from sites s
left join pipeline_runs r on r.run_id = s.run_id
left join lateral (
    select p.deployed_at, p.announced_at
    from publications p
    where p.run_id = s.run_id
    order by p.id desc
    limit 1
) published on true;

comment on view current_runs is 'One row per site: its current run, or its last one, with why it started and how it ended.';
comment on column current_runs.due_at is 'When the next run is due; NULL: now, or never if run_interval is NULL.';
comment on column current_runs.deployed_at is 'When this run published; announced_at: when its post-deploy hooks were done.';
comment on column current_runs.skipped is
    'Entries of the source that the fetch of this run skipped; skipped_examples: the first 20, with reasons.';
