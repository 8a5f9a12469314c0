drop function if exists clerk_rewind(text, text, boolean);
alter table pipeline_runs drop column force_ocr;
