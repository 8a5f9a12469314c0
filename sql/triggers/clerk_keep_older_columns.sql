-- needs: 0006
-- until: cleanup
-- Counters change with every finished job, the stage four times a run: only the latter is of interest here.
create or replace trigger clerk_keep_older_columns
    before update of current_stage, outcome on sites
    for each row when (old.current_stage is distinct from new.current_stage or old.outcome is distinct from new.outcome)
    execute function clerk_keep_older_columns();
