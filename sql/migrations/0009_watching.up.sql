-- What the views need to say who works, and what could not be had.

create table worker_processes (
    worker_id bigint primary key references procrastinate_workers (id) on delete cascade,
    holder text not null,
    queues text[],
    registered_at timestamptz not null default now()
);
comment on table worker_processes is 'Which process a worker of Procrastinate is: its name in claims, and what it reads.';
comment on column worker_processes.holder is 'application_name, as in job_claims: a unique part, "clerk", process id, host.';
comment on column worker_processes.queues is 'NULL: every queue.';

create index idx_content_items_fetch_failed_at on content_items (fetch_failed_at) where fetch_failed_at is not null;
