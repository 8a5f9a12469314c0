drop index idx_cips_reopened;
alter table reconcile_log drop column kind, drop column error;
drop function if exists clerk_release_held_back(text);
