-- Changes of many jobs are recorded per statement: types for sets of changes, and an index for paused sites.

create type clerk_job_change as (
    job_id bigint,
    old_status procrastinate_job_status,
    status procrastinate_job_status,
    attempt integer,
    subdomain text,
    run_id bigint,
    stage text,
    content_item_id bigint
);
comment on type clerk_job_change is
    'A change of a job''s status. content_item_id is NULL if the job''s arguments do not name a unit.';

create type clerk_unit_end as (
    job_id bigint,
    subdomain text,
    run_id bigint,
    stage text,
    content_item_id bigint,
    succeeded boolean,
    error_code text,
    error_message text
);
comment on type clerk_unit_end is 'The end of a unit, for clerk_settle_units.';

-- Every insertion of jobs looks for paused sites.
create index idx_sites_paused on sites (subdomain) where paused_at is not null;

-- Each job is updated twice, and half of all rows are dead when a queue is empty: vacuum before that.
alter table procrastinate_jobs set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
alter table procrastinate_events set (autovacuum_vacuum_scale_factor = 0.02);
