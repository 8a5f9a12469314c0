alter table content_items reset (fillfactor, autovacuum_vacuum_scale_factor, autovacuum_analyze_scale_factor);
alter table pipeline_transitions reset (autovacuum_vacuum_scale_factor, autovacuum_analyze_scale_factor);
alter table pipeline_runs reset (autovacuum_vacuum_scale_factor, autovacuum_analyze_scale_factor);
alter table sites reset (autovacuum_vacuum_cost_limit);
alter table content_item_pipeline_state reset (autovacuum_vacuum_cost_limit);
alter table job_claims reset (autovacuum_vacuum_cost_limit);
alter table procrastinate_events reset (autovacuum_vacuum_cost_limit);
alter table procrastinate_jobs reset (autovacuum_vacuum_cost_limit);
