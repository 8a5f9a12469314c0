-- needs: 0006
create or replace trigger clerk_hold_back
    before insert on procrastinate_jobs
    for each row when (new.status = 'todo')
    execute function clerk_before_job_insert();
