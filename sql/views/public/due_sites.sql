-- needs: 0032
-- The one definition of "due": clerk_start_next_due_site reads this view. Not by current_stage: a site that the legacy
-- clerk left in mid-stage has no run here, and is due.
create view due_sites as
select s.subdomain, s.updated_at, s.run_interval
from sites s
where s.paused_at is null
  and not exists (select from pipeline_runs r where r.subdomain = s.subdomain and r.ended_at is null)
  and s.run_interval is not null
  and (s.updated_at is null or s.updated_at < clerk_now() - s.run_interval)
order by s.updated_at nulls first, s.subdomain;

comment on view due_sites is 'Sites that the scheduler will start, the one that has waited longest first.';
