-- needs: 0017
create view due_sites as
select s.subdomain, s.updated_at, s.run_interval
from sites s
where (s.current_stage is null or s.current_stage = 'completed') and s.paused_at is null
  and (s.updated_at is null or s.updated_at < clerk_now() - s.run_interval)
order by s.updated_at nulls first, s.subdomain;

comment on view due_sites is 'Sites that the scheduler will start, the one that has waited longest first.';
