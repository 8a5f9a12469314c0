-- needs: 0017
create view contradicted_results as
select j.id as job_id, j.args ->> 'subdomain' as subdomain, j.args ->> 'stage' as stage,
       format('job %s is %s, and its claim was settled as %s', j.id, j.status, coalesce(c.settled_as, 'nothing')) as problem
from procrastinate_jobs j
join job_claims c on c.job_id = j.id
where j.status in ('succeeded', 'failed', 'aborted', 'cancelled') and c.settled_as is distinct from j.status::text;

comment on view contradicted_results is 'Ended jobs whose claim says otherwise (invariant I8). Reads every job it is not kept from.';
