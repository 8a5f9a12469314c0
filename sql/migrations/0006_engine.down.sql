drop index idx_procrastinate_jobs_queue_todo;
drop table ignored_results;
alter table job_claims drop column settled_as, drop column settled_at, drop column settled_by;
alter table content_item_pipeline_state drop column reopened_at;
drop table paused_queues;
alter table sites drop column dirty, drop column cadence, drop column paused_at, drop column paused_by;
drop table stage_policy;
