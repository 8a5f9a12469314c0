-- needs: 0018
-- until: cleanup
-- Fires when the stage, the outcome or the run changes, not when counters change with every finished job. run_id is
-- included because a new run may start in the stage that the site already has.
create or replace trigger clerk_sync_legacy_columns
    before update of current_stage, outcome, run_id on sites
    for each row when (old.current_stage is distinct from new.current_stage or old.outcome is distinct from new.outcome
                       or old.run_id is distinct from new.run_id)
    execute function clerk_sync_legacy_columns();
