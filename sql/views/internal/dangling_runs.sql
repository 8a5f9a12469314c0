-- needs: 0017
create view dangling_runs as
select s.subdomain, s.run_id, s.current_stage as stage, format('the site points at run %s, which is not there', s.run_id) as problem
from sites s
where s.run_id is not null and not exists (select from pipeline_runs r where r.run_id = s.run_id)
union all
select r.subdomain, r.run_id, s.current_stage, format('run %s is going, and the site does not know it', r.run_id)
from pipeline_runs r
join sites s on s.subdomain = r.subdomain
where r.ended_at is null and (s.run_id is null or s.run_id < r.run_id);

comment on view dangling_runs is 'Sites that point at a run that is not there, and runs that go without their site.';
