-- needs: 0018
create or replace trigger clerk_record_delete
    after delete on procrastinate_jobs
    for each row
    execute function clerk_record_delete();
