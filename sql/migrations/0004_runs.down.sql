drop table reconcile_log;
drop table job_claims;
drop table pipeline_transitions;
drop table pipeline_runs;
