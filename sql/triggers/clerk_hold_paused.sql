-- needs: 0026
-- New jobs are put on hold by clerk_record_insert, once per statement.
create or replace trigger clerk_hold_paused
    before update of status on procrastinate_jobs
    for each row when (new.status = 'todo' and old.status is distinct from new.status)
    execute function clerk_hold_paused();
