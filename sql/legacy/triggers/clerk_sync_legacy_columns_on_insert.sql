-- needs: 0018
-- until: cleanup
create or replace trigger clerk_sync_legacy_columns_on_insert
    before insert on sites
    for each row when (new.status is null and new.current_stage is null)
    execute function clerk_sync_legacy_columns();
