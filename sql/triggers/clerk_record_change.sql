-- needs: 0031
-- Per statement. A trigger with transition tables cannot have a column list: the function ignores other columns.
create or replace trigger clerk_record_change
    after update on procrastinate_jobs
    referencing old table as old_jobs new table as new_jobs
    for each statement
    execute function clerk_record_change();
