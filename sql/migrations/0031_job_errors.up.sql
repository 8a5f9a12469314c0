-- The error of each failed attempt at a job, with its traceback, for the page of the job.

create table job_errors (
    job_id bigint not null,
    attempt integer not null,
    at timestamptz not null default now(),
    holder text not null,
    error_code text not null,
    error_message text,
    traceback text,
    primary key (job_id, attempt)
);
comment on table job_errors is
    'Why attempts at a job failed: the last ten of each job. Written with the change of the job''s status, deleted with the job.';
comment on column job_errors.attempt is '1 for the first attempt.';
comment on column job_errors.holder is 'The worker process that held the job, as in job_claims.';
comment on column job_errors.traceback is 'Of the exception, without secrets; at most 8,000 characters. NULL: the worker was lost.';
