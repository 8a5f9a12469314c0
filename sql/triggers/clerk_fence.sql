-- needs: 0018
create or replace trigger clerk_fence
    before update of status on procrastinate_jobs
    for each row when (old.status is distinct from new.status and new.status <> 'doing')
    execute function clerk_fence();
