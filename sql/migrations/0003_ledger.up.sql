-- The ledger: the state of every unit, that is of every content item in every stage.

create table content_item_pipeline_state (
    id bigint generated always as identity primary key,
    content_item_id bigint not null references content_items (id) on delete cascade,
    pipeline text not null,
    status text not null default 'pending',
    attempt_count integer not null default 0,
    error_code text,
    error_message text,
    last_attempt_at timestamptz,
    processed_at timestamptz,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    run_id bigint,
    job_id bigint,
    constraint cips_pipeline_check check (pipeline in ('fetch', 'ocr', 'compilation', 'extraction', 'deploy')),
    constraint cips_status_check
        check (status in ('pending', 'in_progress', 'failed_retryable', 'processed', 'failed_terminal')),
    constraint cips_attempt_count_check check (attempt_count >= 0)
)
-- A row is written three or four times in its life and then rests.
with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

create unique index uix_cips_content_item_pipeline on content_item_pipeline_state (content_item_id, pipeline);
-- Partial, each where its questions are. A unit on its usual way, pending to in_progress to processed, then
-- enters one of these five instead of all of them, twice.
create index idx_cips_pipeline_status_created on content_item_pipeline_state (pipeline, status, created_at)
    where status in ('pending', 'in_progress', 'failed_retryable');
create index idx_cips_pipeline_status_last_attempt on content_item_pipeline_state (pipeline, status, last_attempt_at)
    where status in ('failed_retryable', 'failed_terminal');
create index idx_cips_content_item_pipeline_status
    on content_item_pipeline_state (content_item_id, pipeline, status) where status in ('failed_retryable', 'failed_terminal');
create index idx_cips_error_code on content_item_pipeline_state (error_code) where error_code is not null;
create index idx_cips_updated_at on content_item_pipeline_state (updated_at)
    where status in ('failed_retryable', 'failed_terminal');

comment on table content_item_pipeline_state is
    'The ledger: one row per content item and stage. Open: pending, in_progress, failed_retryable. Terminal: processed, failed_terminal.';
comment on column content_item_pipeline_state.pipeline is 'The stage: fetch, ocr, compilation, extraction or deploy.';
comment on column content_item_pipeline_state.attempt_count is 'Attempts begun in the present run.';
comment on column content_item_pipeline_state.error_code is 'Class of the last error, as in PdfEncrypted.';
comment on column content_item_pipeline_state.run_id is 'The run that this state belongs to.';
comment on column content_item_pipeline_state.job_id is
    'The Procrastinate job that carries the unit; no foreign key, since finished jobs are removed.';
