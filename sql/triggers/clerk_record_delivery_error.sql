-- needs: 0025
create or replace trigger clerk_record_delivery_error
    after update of status on procrastinate_jobs
    for each row when (new.task_name in ('clerk.match_publication', 'clerk.deliver_matches')
                       and (new.status in ('failed', 'aborted', 'cancelled')
                            or old.status = 'doing' and new.status = 'todo'))
    execute function clerk_record_delivery_error();
