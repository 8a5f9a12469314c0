-- needs: 0025
-- Records why a job of saved searches failed, in the row of its matching or delivery. Must never raise on bad data.
create or replace function clerk_record_delivery_error() returns trigger
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_status text := case when new.status = 'todo' then 'failed_retryable' else 'failed_terminal' end;
    v_code text := coalesce(nullif(current_setting('clerk.error_code', true), ''),
                            case new.status when 'cancelled' then 'JobCancelled' when 'aborted' then 'JobAborted'
                                            else 'JobFailed' end);
    v_message text := left(nullif(current_setting('clerk.error_message', true), ''), 500);
begin
    update publication_matchings m
    set status = v_status, error_code = v_code, error_message = v_message, attempt_count = new.attempts,
        last_attempt_at = clerk_now()
    where new.task_name = 'clerk.match_publication' and m.job_id = new.id
      and m.publication_id = case when new.args ->> 'publication_id' ~ '^[0-9]{1,18}$'
                                  then (new.args ->> 'publication_id')::bigint end
      and m.status not in ('matched', 'superseded');
    update saved_search_deliveries d
    set status = v_status, error_code = v_code, error_message = v_message, attempt_count = new.attempts,
        last_attempt_at = clerk_now()
    where new.task_name = 'clerk.deliver_matches' and d.job_id = new.id
      and d.id = case when new.args ->> 'delivery_id' ~ '^[0-9]{1,18}$' then (new.args ->> 'delivery_id')::bigint end
      and d.status <> 'delivered';
    return null;
end;
$$;
