-- needs: 0031
create view job_failures as
select e.job_id, e.attempt, e.at, e.error_code, e.error_message, e.traceback, e.holder,
       case when split_part(e.holder, ' ', 2) = 'clerk' then split_part(e.holder, ' ', 4) end as host
from job_errors e
order by e.job_id, e.attempt;

comment on view job_failures is 'Why attempts at a job failed: the last ten of each job that is kept. Filter by job_id.';
comment on column job_failures.attempt is '1 for the first.';
comment on column job_failures.traceback is 'Of the exception, without secrets; at most 8,000 characters. NULL: the worker was lost.';
