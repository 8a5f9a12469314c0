-- needs: 0017
create view queue_pauses as
select q.queue_name as queue, q.paused_at, q.paused_by from paused_queues q;

comment on view queue_pauses is 'Queues whose jobs are held back, since when and by whom.';
