-- needs: 0018
create view run_history as
select r.subdomain, r.run_id, r.reason, r.started_at, r.ended_at,
       coalesce(r.ended_at, clerk_now()) - r.started_at as took, r.outcome, r.outcome_reason,
       (r.counters #>> '{fetch,total}')::integer as fetch_total,
       (r.counters #>> '{fetch,completed}')::integer as fetch_completed,
       (r.counters #>> '{fetch,failed}')::integer as fetch_failed,
       (r.counters #>> '{ocr,total}')::integer as ocr_total,
       (r.counters #>> '{ocr,completed}')::integer as ocr_completed,
       (r.counters #>> '{ocr,failed}')::integer as ocr_failed,
       (r.counters #>> '{compilation,total}')::integer as compilation_total,
       (r.counters #>> '{compilation,completed}')::integer as compilation_completed,
       (r.counters #>> '{compilation,failed}')::integer as compilation_failed,
       (r.counters #>> '{extraction,total}')::integer as extraction_total,
       (r.counters #>> '{extraction,completed}')::integer as extraction_completed,
       (r.counters #>> '{extraction,failed}')::integer as extraction_failed,
       (r.counters #>> '{deploy,total}')::integer as deploy_total,
       (r.counters #>> '{deploy,completed}')::integer as deploy_completed,
       (r.counters #>> '{deploy,failed}')::integer as deploy_failed,
       r.skipped, r.skipped_examples
from pipeline_runs r;

comment on view run_history is 'One row per run: when, why, how long, how it ended. Filter by subdomain.';
comment on column run_history.took is 'Until now, while the run is active.';
comment on column run_history.ocr_total is
    'Counter at the end of the run; NULL while it is active (see pipeline_overview). Likewise the others.';
comment on column run_history.skipped is
    'Entries of the source that its fetch skipped, without those that an operator ignores; 0 also if it fetched nothing. skipped_examples: the first 20, with reasons.';
