-- needs: 0031
create or replace trigger clerk_record_delete
    after delete on procrastinate_jobs
    referencing old table as old_jobs
    for each statement
    execute function clerk_record_delete();
