-- needs: 0022
create view worker_problems as
select p.worker_id, w.holder, w.host, p.queue, p.error_code, p.message, p.since
from host_problems p
join worker_status w on w.worker_id = p.worker_id
where w.alive;

comment on view worker_problems is
    'Queues whose jobs a worker cannot process because of its machine, which it probes every few seconds. A full disk is listed until a job succeeds.';
