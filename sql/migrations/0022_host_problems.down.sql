drop table host_problems;
comment on column content_item_pipeline_state.attempt_count is 'Attempts begun in the present run.';
alter table job_claims drop column uncounted_attempts;
