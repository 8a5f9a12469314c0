-- needs: 0017
create view missing_refreshes as
select s.subdomain, s.run_id
from sites s
where s.dirty and s.current_stage = 'completed'
  and not exists (select from procrastinate_jobs j
                  where j.queueing_lock = 'clerk.refresh:' || s.subdomain and j.status = 'todo');

comment on view missing_refreshes is 'Sites with documents that were healed after their phase, and nobody waiting to compile them.';
