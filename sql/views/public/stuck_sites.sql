-- needs: 0030
create view stuck_sites as
select o.subdomain, o.name, o.current_stage, o.run_id, o.updated_at, o.idle_for, o.phase_ended, o.phase_total,
       o.percent, o.last_error_stage, o.last_error_message, o.last_error_at
from pipeline_overview o
where o.stuck;

comment on view stuck_sites is
    'Sites with an active run, not paused, without progress for two hours and without a live lease.';
