-- needs: 0014
-- until: cleanup
create or replace trigger clerk_remember_older_site
    before update of run_id on sites
    for each row when (old.run_id is null and new.run_id is not null)
    execute function clerk_remember_older_site();
