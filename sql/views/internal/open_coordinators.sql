-- needs: 0018
create view open_coordinators as
select s.subdomain, s.run_id, t.phase, t.claimed_at as phase_ended_at, t.deferred_count,
       j.job_id, j.queue_name as queue, j.priority, j.status::text as job_status, j.attempts,
       nullif(j.scheduled_at, clerk_paused_until()) as scheduled_at,
       j.worker_id, j.holder, j.claimed_at, j.lease_until,
       case when j.job_id is null then 'orphaned'
            when j.status = 'doing' then case when j.lease_until > clerk_now() then 'running' else 'lost' end
            when j.scheduled_at = clerk_paused_until() then 'paused'
            when j.scheduled_at > clerk_now() then 'later'
            else 'waiting' end as state
from sites s
join pipeline_transitions t on t.run_id = s.run_id and t.advanced_at is null
left join lateral (
    select l.*, c.holder, c.claimed_at, c.lease_until
    from live_coordinators l
    left join job_claims c on c.job_id = l.job_id and l.status = 'doing' and c.settled_as is null
    where l.queueing_lock = format('clerk.coordinate:%s:%s', t.run_id, t.phase)
    -- One that runs; else the one that waits; else one that was lost.
    order by case when c.lease_until > clerk_now() then 1 when l.status = 'todo' then 2 else 3 end, l.job_id
    limit 1
) j on true;

comment on view open_coordinators is 'Complete phases that have not been advanced: where the coordinator waits or runs.';
comment on column open_coordinators.job_id is 'NULL: the coordinator is missing, and reconciliation will defer it again.';
comment on column open_coordinators.state is 'As in open_units.';
