-- needs: 0018
create view missing_refreshes as
select s.subdomain, s.run_id
from sites s
where s.dirty and s.current_stage = 'completed'
  and not exists (select from procrastinate_jobs j
                  where j.queueing_lock = 'clerk.refresh:' || s.subdomain and j.status = 'todo');

comment on view missing_refreshes is 'Dirty sites without an active run and without a waiting refresh job.';
