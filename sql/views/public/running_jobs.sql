-- needs: 0018
create view running_jobs as
select j.id as job_id, j.queue_name as queue, j.task_name, j.args ->> 'subdomain' as subdomain,
       j.args ->> 'run_id' as run_id, j.args ->> 'stage' as stage, j.args ->> 'content_item_id' as content_item_id,
       j.worker_id, c.holder,
       case when split_part(c.holder, ' ', 2) = 'clerk' then split_part(c.holder, ' ', 4) end as host,
       case when split_part(c.holder, ' ', 2) = 'clerk' then split_part(c.holder, ' ', 3) end as pid,
       c.attempt, c.claimed_at, clerk_now() - c.claimed_at as running_for, c.lease_until,
       coalesce(c.settled_as is null and c.lease_until > clerk_now(), false) as has_lease,
       c.progress, c.progress_total, c.progress_at
from procrastinate_jobs j
left join job_claims c on c.job_id = j.id
where j.status = 'doing';

comment on view running_jobs is 'One row per running job: machine, start time, progress.';
comment on column running_jobs.run_id is 'From the job''s arguments; text, because arguments are not validated.';
comment on column running_jobs.host is 'From the holder''s name; NULL for a worker that is not part of clerk.';
comment on column running_jobs.has_lease is 'False: its worker is dead, frozen or past the time limit, and the job will be rescued.';
comment on column running_jobs.progress is 'Steps done, such as pages, of progress_total.';
