-- needs: 0018
create view recent_ignored_results as
select r.at, r.why, r.subdomain, r.run_id, r.stage, r.content_item_id, r.job_id, r.status, r.holder, r.attempt
from ignored_results r
where r.at >= clerk_now() - interval '7 days'
order by r.at desc;

comment on view recent_ignored_results is 'Results of the last seven days that were rejected or ignored, newest first.';
comment on column recent_ignored_results.why is 'fenced: another claim held the job. stale: the run had ended, or the unit had another job.';
