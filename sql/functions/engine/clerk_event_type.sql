-- needs: 0018
-- The event that Procrastinate records for a change of a job's status; NULL for none. The same as in
-- procrastinate_trigger_function_status_events_update_v1, which clerk_record_change replaces.
-- A bound expression: no search_path can change its meaning, and callers inline it.
create or replace function clerk_event_type(p_old procrastinate_job_status, p_new procrastinate_job_status)
returns procrastinate_job_event_type
language sql immutable parallel safe
return case
    when p_old = 'todo' and p_new = 'doing' then 'started'::procrastinate_job_event_type
    when p_old = 'todo' and p_new in ('cancelled', 'failed', 'succeeded') then 'cancelled'
    when p_old = 'doing' and p_new = 'todo' then 'deferred_for_retry'
    when p_old = 'doing' and p_new = 'failed' then 'failed'
    when p_old = 'doing' and p_new = 'succeeded' then 'succeeded'
    when p_old = 'doing' and p_new = 'aborted' then 'aborted'
    when p_old = 'failed' and p_new = 'todo' then 'retried'
end;
