-- needs: 0006
create or replace trigger clerk_book_change
    after update of status on procrastinate_jobs
    for each row when (old.status is distinct from new.status)
    execute function clerk_after_job_change();
