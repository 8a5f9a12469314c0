-- needs: 0018
create view claim_mismatches as
select c.job_id, j.args ->> 'subdomain' as subdomain, j.args ->> 'stage' as stage,
       case when j.id is null then format('job %s has a claim but does not exist', c.job_id)
            else format('job %s is %s, but its claim was settled as %s', c.job_id, j.status, coalesce(c.settled_as, 'nothing'))
       end as problem
from job_claims c
left join procrastinate_jobs j on j.id = c.job_id
where j.id is null
   or j.status = 'todo' and c.settled_as is null
   or j.status not in ('todo', 'doing') and c.settled_as is distinct from j.status::text;

comment on view claim_mismatches is
    'Claims that contradict their job, or whose job does not exist (invariant I8). Reads every claim unless filtered by job_id.';
