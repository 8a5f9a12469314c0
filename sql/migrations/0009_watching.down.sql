drop index idx_content_items_fetch_failed_at;
drop table worker_processes;
