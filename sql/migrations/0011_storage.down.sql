alter table publications drop column lost_copy;
alter table content_items drop column pdf_wanted_at;
drop table storage_looks;
