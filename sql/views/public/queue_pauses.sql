-- needs: 0018
create view queue_pauses as
select q.queue_name as queue, q.paused_at, q.paused_by from paused_queues q;

comment on view queue_pauses is 'Paused queues, since when and by whom.';
