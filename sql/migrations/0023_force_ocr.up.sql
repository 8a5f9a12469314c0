-- A run can ignore text layers: `clerk rewind SITE --to ocr --force-ocr`.

alter table pipeline_runs add column force_ocr boolean not null default false;
comment on column pipeline_runs.force_ocr is
    'The OCR stage of this run processes every page again by OCR and ignores text layers.';

-- It has one argument more.
drop function if exists clerk_rewind(text, text);
