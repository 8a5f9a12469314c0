-- needs: 0018
create or replace trigger clerk_hold_paused
    before insert on procrastinate_jobs
    for each row when (new.status = 'todo')
    execute function clerk_hold_paused();
