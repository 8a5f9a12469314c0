alter table pipeline_runs drop column traced_at;
