-- needs: 0006
-- until: cleanup
create or replace trigger clerk_name_new_site
    before insert on sites
    for each row when (new.status is null and new.current_stage is null)
    execute function clerk_keep_older_columns();
