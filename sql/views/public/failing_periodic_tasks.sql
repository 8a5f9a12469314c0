-- needs: 0031
create view failing_periodic_tasks as
select d.task_name as task, d.job_id, e.at, coalesce(e.error_code, 'WorkerLost') as error_code,
       e.error_message
from procrastinate_periodic_defers d
join procrastinate_jobs j on j.id = d.job_id
left join lateral (
    select e.at, e.error_code, e.error_message from job_errors e where e.job_id = j.id order by e.attempt desc limit 1
) e on true
where j.status = 'failed';

comment on view failing_periodic_tasks is
    'Periodic tasks of clerk, such as the one that starts due runs, whose last job failed. Normally empty.';
