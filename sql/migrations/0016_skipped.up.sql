-- What a fetch passed over: entries of the source that no document can be made of.

alter table pipeline_runs
    add column skipped integer not null default 0,
    add column skipped_examples text[];

comment on column pipeline_runs.skipped is
    'Entries of the source that this run''s fetch passed over, since no document can be made of them.';
comment on column pipeline_runs.skipped_examples is 'Which and why: the first 20 of them.';
