drop index idx_procrastinate_jobs_queue_todo;
create index idx_procrastinate_jobs_queue_todo on procrastinate_jobs (queue_name, priority desc, id)
    where status = 'todo';
alter table procrastinate_jobs drop column turn;
alter table sites drop column weight;
