-- needs: 0017
create view run_end_mismatches as
select r.subdomain, l.run_id, 'I1' as invariant, l.pipeline as stage,
       format('content item %s is %s although its run has ended', l.content_item_id, l.status) as problem
from content_item_pipeline_state l
join pipeline_runs r on r.run_id = l.run_id
where l.status in ('pending', 'in_progress', 'failed_retryable') and r.ended_at is not null
union all
select r.subdomain, r.run_id, 'I4', null, format('run %s of the site has not ended, and run %s came after it', r.run_id, s.run_id)
from pipeline_runs r
join sites s on s.subdomain = r.subdomain
where r.ended_at is null and r.run_id < s.run_id
  and exists (select from pipeline_runs present where present.run_id = s.run_id)
union all
select s.subdomain, s.run_id, 'I4', s.current_stage, 'the run has ended, and the site is not completed with its outcome'
from sites s
join pipeline_runs r on r.run_id = s.run_id
where r.ended_at is not null and (s.current_stage is distinct from 'completed' or s.outcome is distinct from r.outcome)
union all
select s.subdomain, s.run_id, 'I4', s.current_stage, 'the site is completed with an outcome, and its run has not ended'
from pipeline_runs r
join sites s on s.subdomain = r.subdomain and s.run_id = r.run_id
where r.ended_at is null and s.current_stage = 'completed' and s.outcome is not null
  and not exists (select from content_items i
                  join content_item_pipeline_state l on l.content_item_id = i.id and l.run_id = r.run_id
                  where i.subdomain = s.subdomain and l.status in ('pending', 'in_progress', 'failed_retryable'));

comment on view run_end_mismatches is
    'Runs that ended for some and not for others: open units of an ended run (I1), a site and its run that disagree, older runs without an end (I4).';
