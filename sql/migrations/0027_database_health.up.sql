-- Autovacuum of the tables that change with every job or document. `\d+` and the view table_health show the result.
--
-- Cost limit: with the default of 200 a vacuum dirties at most 40 MB per second, and a busy queue dirties more. With
-- 1000 it dirties up to 200 MB per second, also on a server with default settings. Each job leaves two dead rows in
-- procrastinate_jobs and two in the ledger (their status is in index predicates, so no update is HOT), and deleting
-- old jobs leaves four in procrastinate_events.
alter table procrastinate_jobs set (autovacuum_vacuum_cost_limit = 1000);
alter table procrastinate_events set (autovacuum_vacuum_cost_limit = 1000);
alter table job_claims set (autovacuum_vacuum_cost_limit = 1000);
alter table content_item_pipeline_state set (autovacuum_vacuum_cost_limit = 1000);
alter table sites set (autovacuum_vacuum_cost_limit = 1000);

-- One or two updates per row, early in its life: at 20 percent, the default, a table of ten million rows would collect
-- two million dead rows. Statistics follow the newest rows, which the views read.
alter table pipeline_runs set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
alter table pipeline_transitions set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

-- A fetch inserts thousands of documents, OCR then sets each one's page_count, which is in no index. With room for it
-- on the page, 98 instead of 87 percent of these updates are HOT (2,100 documents of three sites).
alter table content_items set (
    fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
