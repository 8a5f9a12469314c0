alter table pipeline_runs
    drop column skipped,
    drop column skipped_examples;
