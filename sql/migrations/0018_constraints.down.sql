-- The kinds stage, end and transition stay merged as run.
update reconcile_log g
set kind = old.kind
from (values ('missing-units', 'members'), ('stale-jobs', 'stale'), ('paused-jobs', 'stranded'), ('abandoned', 'given up'),
             ('texts-complete', 'texts-there'), ('extraction-lost', 'findings-lost'), ('temp-files', 'left-behind'),
             ('untracked-document', 'unknown-document')) as old (new_kind, kind)
where g.kind = old.new_kind;
alter table reconcile_runs rename column abandoned to given_up;

alter table pipeline_runs
    add column fetch_total integer, add column fetch_completed integer, add column fetch_failed integer,
    add column ocr_total integer, add column ocr_completed integer, add column ocr_failed integer,
    add column compilation_total integer, add column compilation_completed integer, add column compilation_failed integer,
    add column extraction_total integer, add column extraction_completed integer, add column extraction_failed integer,
    add column deploy_total integer, add column deploy_completed integer, add column deploy_failed integer;
update pipeline_runs r
set fetch_total = (r.counters #>> '{fetch,total}')::integer,
    fetch_completed = (r.counters #>> '{fetch,completed}')::integer,
    fetch_failed = (r.counters #>> '{fetch,failed}')::integer,
    ocr_total = (r.counters #>> '{ocr,total}')::integer,
    ocr_completed = (r.counters #>> '{ocr,completed}')::integer,
    ocr_failed = (r.counters #>> '{ocr,failed}')::integer,
    compilation_total = (r.counters #>> '{compilation,total}')::integer,
    compilation_completed = (r.counters #>> '{compilation,completed}')::integer,
    compilation_failed = (r.counters #>> '{compilation,failed}')::integer,
    extraction_total = (r.counters #>> '{extraction,total}')::integer,
    extraction_completed = (r.counters #>> '{extraction,completed}')::integer,
    extraction_failed = (r.counters #>> '{extraction,failed}')::integer,
    deploy_total = (r.counters #>> '{deploy,total}')::integer,
    deploy_completed = (r.counters #>> '{deploy,completed}')::integer,
    deploy_failed = (r.counters #>> '{deploy,failed}')::integer
where r.counters is not null;
alter table pipeline_runs drop column counters;

drop index uix_pipeline_runs_open;
alter table sites drop constraint sites_run_id_fkey;

-- Comments as the earlier migrations wrote them.
comment on column sites.run_id is 'The present run, or the last one: the fencing token of every job.';
comment on table pipeline_transitions is
    'The exactly-once proof: one row when a phase is complete and its coordinator is claimed, advanced once.';
comment on column reconcile_runs.given_up is
    'Runs that were ended as failed because the same repair had made no progress three times.';
