-- needs: 0025
-- Two comparisons instead of `in`, whose text a dump and restore would change.
create or replace trigger clerk_record_delivery_error
    after update of status on procrastinate_jobs
    for each row when ((new.task_name = 'clerk.match_publication' or new.task_name = 'clerk.deliver_matches')
                       and (new.status in ('failed', 'aborted', 'cancelled')
                            or old.status = 'doing' and new.status = 'todo'))
    execute function clerk_record_delivery_error();
