-- needs: 0031
create view job_overview as
select j.id as job_id, j.task_name, j.queue_name as queue, j.status::text as status, j.priority, j.attempts,
       j.scheduled_at, j.abort_requested, a.args,
       j.args ->> 'subdomain' as subdomain, u.run_id, j.args ->> 'stage' as stage, u.content_item_id,
       i.kind, i.meeting, i.date, p.max_attempts, j.worker_id,
       c.holder,
       case when split_part(c.holder, ' ', 2) = 'clerk' then split_part(c.holder, ' ', 4) end as host,
       case when split_part(c.holder, ' ', 2) = 'clerk' then split_part(c.holder, ' ', 3) end as pid,
       c.attempt, c.claimed_at, c.lease_until,
       coalesce(j.status = 'doing' and c.settled_as is null and c.lease_until > clerk_now(), false) as has_lease,
       c.progress, c.progress_total, c.progress_at, c.uncounted_attempts,
       c.settled_as::text as settled_as, c.settled_at, c.settled_by
from procrastinate_jobs j
cross join lateral (
    select case when j.args ->> 'run_id' ~ '^[0-9]{1,18}$' then (j.args ->> 'run_id')::bigint end as run_id,
           case when j.args ->> 'content_item_id' ~ '^[0-9]{1,18}$'
                then (j.args ->> 'content_item_id')::bigint end as content_item_id
) u
cross join lateral (
    select coalesce(jsonb_object_agg(
               each.key,
               case when each.key ~* 'token|secret|passw|pwd|auth|credential|cookie|session|key$'
                         or jsonb_typeof(each.value) in ('object', 'array')
                            and each.value::text ~* '"[^"]*((token|secret|passw|pwd|auth|credential|cookie|session)[^"]*|key)"\s*:'
                    then to_jsonb('not shown'::text)
                    else regexp_replace(each.value::text, '(://)[^/@\s"]+@', '\1', 'g')::jsonb end), '{}') as args
    from jsonb_each(case when jsonb_typeof(j.args) = 'object' then j.args else '{}' end) each
) a
left join job_claims c on c.job_id = j.id
left join content_items i on i.id = u.content_item_id
left join stage_policy p on p.stage = j.args ->> 'stage';

comment on view job_overview is
    'One row per job that is kept: what it is for, its attempts, and its claim. Filter by job_id.';
comment on column job_overview.status is 'todo, doing, succeeded, failed, cancelled or aborted.';
comment on column job_overview.attempts is 'Attempts that have ended, of at most max_attempts and uncounted_attempts.';
comment on column job_overview.args is 'The arguments. Values whose name suggests a secret, and user names in addresses, are not shown.';
comment on column job_overview.run_id is 'From the arguments; NULL if they name no run. Likewise content_item_id.';
comment on column job_overview.holder is 'The worker process of the last claim; host and pid are parts of it.';
comment on column job_overview.attempt is 'Of the last claim: 0 for the first.';
comment on column job_overview.has_lease is 'Whether the job is running and its worker has renewed the lease in time.';
comment on column job_overview.progress is 'Steps done, such as pages, of progress_total.';
comment on column job_overview.uncounted_attempts is
    'Attempts that the database, the host or a shutdown of the worker ended. They do not count towards max_attempts.';
comment on column job_overview.settled_by is 'Who ended the last claim: its holder, or the repair or action that took the job away.';
