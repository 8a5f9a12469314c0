-- needs: 0006
create or replace trigger clerk_book_delete
    after delete on procrastinate_jobs
    for each row
    execute function clerk_after_job_delete();
