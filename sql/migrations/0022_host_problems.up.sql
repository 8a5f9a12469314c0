-- Attempts that do not count towards the maximum, and problems of the workers' machines.

alter table job_claims add column uncounted_attempts integer not null default 0;
comment on column job_claims.uncounted_attempts is
    'Attempts that the database, the host or a shutdown of the worker ended. They do not count towards max_attempts; '
    'procrastinate_jobs.attempts has all of them.';
comment on column content_item_pipeline_state.attempt_count is
    'Attempts begun in the present run, without those that the database, the host or a shutdown of the worker ended.';

create table host_problems (
    worker_id bigint not null references procrastinate_workers (id) on delete cascade,
    queue text not null,
    error_code text not null,
    message text not null,
    since timestamptz not null default now(),
    primary key (worker_id, queue)
);
comment on table host_problems is
    'Problems of workers'' machines, such as a full disk: the worker takes no jobs of the queue until it is solved.';
