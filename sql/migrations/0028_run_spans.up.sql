-- The root span of a run is exported once, by whichever worker claims it.

alter table pipeline_runs add column traced_at timestamptz;
comment on column pipeline_runs.traced_at is
    'When a worker claimed the export of the run''s root span to OpenTelemetry; NULL if the run has not ended or no worker exports.';
