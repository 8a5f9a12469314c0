-- needs: 0018
create or replace trigger clerk_record_coordinator_error
    after update of status on procrastinate_jobs
    for each row when (old.status = 'doing' and new.status in ('todo', 'failed', 'aborted')
                       and new.task_name = 'clerk.coordinate')
    execute function clerk_record_coordinator_error();
