-- needs: 0018
-- until: cleanup
create or replace trigger clerk_save_legacy_site
    before update of run_id on sites
    for each row when (old.run_id is null and new.run_id is not null)
    execute function clerk_save_legacy_site();
