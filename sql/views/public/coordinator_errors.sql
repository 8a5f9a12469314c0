-- needs: 0018
create view coordinator_errors as
select t.error_at as at, r.subdomain, t.run_id, t.phase, t.error_code, t.error_message, t.deferred_count, t.advanced_at
from pipeline_transitions t
join pipeline_runs r on r.run_id = t.run_id
where t.error_at is not null;

comment on view coordinator_errors is 'The last failure of each coordinator, by run and phase.';
comment on column coordinator_errors.advanced_at is 'NULL: it has not succeeded since.';
