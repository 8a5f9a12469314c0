-- needs: 0018
create or replace trigger clerk_record_change
    after update of status on procrastinate_jobs
    for each row when (old.status is distinct from new.status)
    execute function clerk_record_change();
