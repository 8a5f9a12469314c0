-- needs: 0022
create view worker_problems as
select p.worker_id, w.holder, w.host, p.queue, p.error_code, p.message, p.since
from host_problems p
join worker_status w on w.worker_id = p.worker_id
where w.alive;

comment on view worker_problems is
    'Queues that a worker takes no jobs of, because of a problem of its machine that it probes every few seconds.';
