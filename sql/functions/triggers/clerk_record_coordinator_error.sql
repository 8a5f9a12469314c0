-- needs: 0018
-- Records why a coordinator failed or was rescued. Must never raise on bad data.
create or replace function clerk_record_coordinator_error() returns trigger
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_run_id bigint := case when new.args ->> 'run_id' ~ '^[0-9]{1,18}$' then (new.args ->> 'run_id')::bigint end;
    v_phase smallint := case when new.args ->> 'phase' ~ '^[1-4]$' then (new.args ->> 'phase')::smallint end;
begin
    -- Lock order: the job before the transition. A session that has locked a transition never waits for a job.
    update pipeline_transitions t
    set error_code = coalesce(nullif(current_setting('clerk.error_code', true), ''), 'JobFailed'),
        error_message = left(nullif(current_setting('clerk.error_message', true), ''), 500), error_at = clerk_now()
    where t.run_id = v_run_id and t.phase = v_phase;
    return null;
end;
$$;
