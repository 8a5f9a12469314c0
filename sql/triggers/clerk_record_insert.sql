-- needs: 0026
create or replace trigger clerk_record_insert
    after insert on procrastinate_jobs
    referencing new table as new_jobs
    for each statement
    execute function clerk_record_insert();
