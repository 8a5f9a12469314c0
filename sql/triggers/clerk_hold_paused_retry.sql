-- needs: 0018
create or replace trigger clerk_hold_paused_retry
    before update of status on procrastinate_jobs
    for each row when (new.status = 'todo' and old.status is distinct from new.status)
    execute function clerk_hold_paused();
