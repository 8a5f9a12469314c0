-- needs: 0006
create view pipeline_conservation as
select 'I1' as invariant, i.subdomain, l.run_id, l.pipeline as stage,
       format('content item %s is %s although its run has ended', l.content_item_id, l.status) as problem
from content_item_pipeline_state l
join content_items i on i.id = l.content_item_id
join pipeline_runs r on r.run_id = l.run_id
where l.status in ('pending', 'in_progress', 'failed_retryable') and r.ended_at is not null
union all
select 'I2', s.subdomain, s.run_id, n.stage,
       format('the site counts %s/%s/%s (total, completed, failed), the ledger %s/%s/%s',
              n.total, n.completed, n.failed, n.ledger_total, n.ledger_completed, n.ledger_failed)
from sites s
join ledger_counters c on c.subdomain = s.subdomain
cross join lateral (values
    ('fetch', s.fetch_total, s.fetch_completed, s.fetch_failed, c.fetch_total, c.fetch_completed, c.fetch_failed),
    ('ocr', s.ocr_total, s.ocr_completed, s.ocr_failed, c.ocr_total, c.ocr_completed, c.ocr_failed),
    ('compilation', s.compilation_total, s.compilation_completed, s.compilation_failed,
     c.compilation_total, c.compilation_completed, c.compilation_failed),
    ('extraction', s.extraction_total, s.extraction_completed, s.extraction_failed,
     c.extraction_total, c.extraction_completed, c.extraction_failed),
    ('deploy', s.deploy_total, s.deploy_completed, s.deploy_failed, c.deploy_total, c.deploy_completed, c.deploy_failed)
) as n (stage, total, completed, failed, ledger_total, ledger_completed, ledger_failed)
where (n.total, n.completed, n.failed) is distinct from (n.ledger_total, n.ledger_completed, n.ledger_failed)
   or n.completed + n.failed > n.total
   or n.completed + n.failed < n.total
      and coalesce(clerk_phase(s.current_stage), 5) > clerk_phase(n.stage)
union all
select 'I3', s.subdomain, s.run_id, s.current_stage,
       format('the run is in phase %s, and phase %s before it has no accepted advance', clerk_phase(s.current_stage), t.phase)
from sites s
join pipeline_transitions t on t.run_id = s.run_id
where t.advanced_at is null and t.phase < clerk_phase(s.current_stage)
union all
select 'I4', r.subdomain, r.run_id, s.current_stage,
       case when r.ended_at is null then 'an older run of the site has not ended'
            else 'the run has ended, and the site is not completed with its outcome' end
from pipeline_runs r
join sites s on s.subdomain = r.subdomain
where r.ended_at is null and s.run_id is distinct from r.run_id
   or r.ended_at is not null and s.run_id = r.run_id
      and (s.current_stage is distinct from 'completed' or s.outcome is distinct from r.outcome)
union all
select 'I7', e.subdomain, null, e.stage, format('job %s runs without a live lease (%s)', e.job_id, coalesce(e.holder, 'nobody'))
from expired_claims e
union all
select 'I8', j.args ->> 'subdomain', null, j.args ->> 'stage',
       format('job %s is %s, and its claim was settled as %s', j.id, j.status, c.settled_as)
from procrastinate_jobs j
join job_claims c on c.job_id = j.id
where j.status in ('succeeded', 'failed', 'aborted', 'cancelled') and c.settled_as is distinct from j.status::text;

comment on view pipeline_conservation is 'A row per broken invariant that SQL can see; empty when all is well.';
