-- needs: 0017
-- until: cleanup
-- Counters change with every finished job, the stage four times a run: only the latter is of interest here. And each new
-- run, which may begin in the very stage where the older system left off, under a word that was wrong.
create or replace trigger clerk_sync_legacy_columns
    before update of current_stage, outcome, run_id on sites
    for each row when (old.current_stage is distinct from new.current_stage or old.outcome is distinct from new.outcome
                       or old.run_id is distinct from new.run_id)
    execute function clerk_sync_legacy_columns();
