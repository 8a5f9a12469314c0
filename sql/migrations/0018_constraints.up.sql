-- Constraints that make two wrong states impossible: a site whose run does not exist, and two open runs of one site.
-- Rows that break them are repaired first. The final counters of a run become one column.

-- A run that is missing but has ledger rows is restored, unless the site has an open run.
insert into pipeline_runs (run_id, subdomain, reason, started_at, ended_at, outcome, outcome_reason)
overriding system value
select s.run_id, s.subdomain, 'restored from the ledger', coalesce(s.started_at, now()),
       case when s.current_stage = 'completed' then coalesce(s.updated_at, now()) end,
       case when s.current_stage = 'completed' then coalesce(s.outcome, 'failed') end,
       case when s.current_stage = 'completed' then 'the record of the run was missing' end
from sites s
where not exists (select from pipeline_runs r where r.run_id = s.run_id)
  and not exists (select from pipeline_runs r where r.subdomain = s.subdomain and r.ended_at is null)
  and exists (select from content_items i
              join content_item_pipeline_state l on l.content_item_id = i.id and l.run_id = s.run_id
              where i.subdomain = s.subdomain)
on conflict (run_id) do nothing;

select setval(pg_get_serial_sequence('pipeline_runs', 'run_id'), newest.run_id)
from (select max(r.run_id) as run_id from pipeline_runs r) newest
where newest.run_id > (select q.last_value from pipeline_runs_run_id_seq q);

-- A site whose run is missing, or that has a newer open run, gets its open run, else its newest run, else none.
update sites s
set run_id = found.run_id, outcome = found.outcome,
    current_stage = case when found.run_id is null then null
                         when found.ended_at is not null then 'completed'
                         else s.current_stage end
from sites before
left join lateral (
    select r.run_id, r.outcome, r.ended_at
    from pipeline_runs r
    where r.subdomain = before.subdomain
    order by (r.ended_at is null) desc, r.run_id desc
    limit 1
) found on true
where s.subdomain = before.subdomain
  and (before.run_id is not null
           and not exists (select from pipeline_runs r
                           where r.run_id = before.run_id and r.subdomain = before.subdomain)
       or exists (select from pipeline_runs r
                  where r.subdomain = before.subdomain and r.ended_at is null
                    and r.run_id > coalesce(before.run_id, 0)));

-- Every other open run was superseded. Its open units are left to the next run.
with superseded as (
    update pipeline_runs r
    set ended_at = now(), outcome = 'cancelled', outcome_reason = format('superseded by run %s', s.run_id)
    from sites s
    where s.subdomain = r.subdomain and r.ended_at is null and r.run_id is distinct from s.run_id
    returning r.run_id
)
update content_item_pipeline_state l
set status = 'failed_terminal', error_code = 'RunEnded', error_message = 'the run was superseded', updated_at = now()
from superseded
where l.run_id = superseded.run_id and l.status in ('pending', 'in_progress', 'failed_retryable');

alter table sites add constraint sites_run_id_fkey foreign key (run_id) references pipeline_runs (run_id);
create unique index uix_pipeline_runs_open on pipeline_runs (subdomain) where ended_at is null;
comment on column sites.run_id is 'The current run, or the last one: the fencing token of every job.';

alter table pipeline_runs add column counters jsonb;
update pipeline_runs r
set counters = jsonb_build_object(
    'fetch', jsonb_build_object('total', r.fetch_total, 'completed', r.fetch_completed, 'failed', r.fetch_failed),
    'ocr', jsonb_build_object('total', r.ocr_total, 'completed', r.ocr_completed, 'failed', r.ocr_failed),
    'compilation', jsonb_build_object('total', r.compilation_total, 'completed', r.compilation_completed,
                                      'failed', r.compilation_failed),
    'extraction', jsonb_build_object('total', r.extraction_total, 'completed', r.extraction_completed,
                                     'failed', r.extraction_failed),
    'deploy', jsonb_build_object('total', r.deploy_total, 'completed', r.deploy_completed, 'failed', r.deploy_failed))
where r.fetch_total is not null;
alter table pipeline_runs
    drop column fetch_total, drop column fetch_completed, drop column fetch_failed,
    drop column ocr_total, drop column ocr_completed, drop column ocr_failed,
    drop column compilation_total, drop column compilation_completed, drop column compilation_failed,
    drop column extraction_total, drop column extraction_completed, drop column extraction_failed,
    drop column deploy_total, drop column deploy_completed, drop column deploy_failed;
comment on table pipeline_runs is 'One row per run: when, why, how it ended, and the counters of the site at its end.';
comment on column pipeline_runs.counters is
    'Counters of the site when the run ended: {stage: {total, completed, failed}}. NULL: the run is open, or was superseded without them.';

comment on table pipeline_transitions is
    'When the coordinator of each phase was claimed, how often it was deferred, and when it advanced the run. History: sites says which phase is current.';
comment on column pipeline_transitions.advanced_at is 'When the one accepted advance out of this phase happened.';

alter table reconcile_runs rename column given_up to abandoned;
comment on column reconcile_runs.abandoned is 'Runs that were ended as failed because the same repair had made no progress three times.';
update reconcile_log g
set kind = new.kind
from (values ('members', 'missing-units'), ('stale', 'stale-jobs'), ('stranded', 'paused-jobs'), ('stage', 'run'),
             ('end', 'run'), ('transition', 'run'), ('given up', 'abandoned'), ('texts-there', 'texts-complete'),
             ('findings-lost', 'extraction-lost'), ('left-behind', 'temp-files'),
             ('unknown-document', 'untracked-document')) as new (old_kind, kind)
where g.kind = new.old_kind;

-- Created again with another parameter name, which `create or replace` refuses.
drop function if exists clerk_fetch_jobs(text[], bigint, integer);
