-- needs: 0017
create view claim_mismatches as
select c.job_id, j.args ->> 'subdomain' as subdomain, j.args ->> 'stage' as stage,
       case when j.id is null then format('there is a claim of job %s, and no such job', c.job_id)
            else format('job %s is %s, and its claim was settled as %s', c.job_id, j.status, coalesce(c.settled_as, 'nothing'))
       end as problem
from job_claims c
left join procrastinate_jobs j on j.id = c.job_id
where j.id is null
   or j.status = 'todo' and c.settled_as is null
   or j.status not in ('todo', 'doing') and c.settled_as is distinct from j.status::text;

comment on view claim_mismatches is 'Claims that say something else than their job (invariant I8), or whose job is gone. Reads every claim.';
