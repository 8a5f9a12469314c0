-- needs: 0018
create view expired_claims as
select j.id as job_id, j.queue_name, j.task_name, j.args ->> 'subdomain' as subdomain, j.args ->> 'stage' as stage,
       c.holder, c.attempt, c.lease_until
from procrastinate_jobs j
left join job_claims c on c.job_id = j.id
where j.status = 'doing' and (c.job_id is null or c.settled_as is not null or c.lease_until <= clerk_now());

comment on view expired_claims is 'Running jobs without a live lease (invariant I7): their worker died, froze or exceeded the time limit.';
