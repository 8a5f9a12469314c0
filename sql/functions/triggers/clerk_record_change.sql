-- needs: 0018
-- Records every change of a job's status in ledger, counters and claim, in the transaction of the change.
-- sql/README.md has the table of transitions. Must never raise on bad data: finish_job would fail, and the job would
-- stay `doing`.
create or replace function clerk_record_change() returns trigger
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_now timestamptz := clerk_now();
    v_subdomain text := new.args ->> 'subdomain';
    v_stage text := new.args ->> 'stage';
    v_run_id bigint := case when new.args ->> 'run_id' ~ '^[0-9]{1,18}$' then (new.args ->> 'run_id')::bigint end;
    v_item bigint := case when new.args ->> 'content_item_id' ~ '^[0-9]{1,18}$'
                          then (new.args ->> 'content_item_id')::bigint end;
    v_is_unit boolean := v_run_id is not null and v_item is not null and clerk_phase(v_stage) is not null
                         and v_subdomain is not null;
    v_error_code text := nullif(current_setting('clerk.error_code', true), '');
    v_error_message text := nullif(current_setting('clerk.error_message', true), '');
begin
    if new.status = 'doing' then
        insert into job_claims as c (job_id, holder, attempt, claimed_at, lease_until)
        values (new.id, current_setting('application_name'), new.attempts, v_now,
                v_now + coalesce((select p.lease from stage_policy p where p.stage = v_stage),
                                       interval '2 minutes'))
        on conflict (job_id) do update
        set holder = excluded.holder, attempt = excluded.attempt, claimed_at = excluded.claimed_at,
            lease_until = excluded.lease_until, progress = 0, progress_total = null, progress_at = null,
            settled_as = null, settled_at = null, settled_by = null;
        if v_is_unit then
            update content_item_pipeline_state l
            set status = 'in_progress', attempt_count = l.attempt_count + 1, last_attempt_at = v_now,
                updated_at = v_now
            where l.content_item_id = v_item and l.pipeline = v_stage and l.run_id = v_run_id and l.job_id = new.id
              and l.status in ('pending', 'in_progress', 'failed_retryable');
        end if;
        return null;
    end if;

    if old.status = 'doing' or new.status <> 'todo' then
        update job_claims c
        set settled_as = new.status, settled_at = v_now,
            settled_by = coalesce(nullif(current_setting('clerk.actor', true), ''), current_setting('application_name'))
        where c.job_id = new.id;
    end if;
    if not v_is_unit then
        return null;
    end if;

    if new.status <> 'todo' then
        perform clerk_settle_unit(
            new.id, v_subdomain, v_run_id, v_stage, v_item, new.status = 'succeeded',
            coalesce(v_error_code, case new.status when 'cancelled' then 'JobCancelled' when 'aborted' then 'JobAborted'
                                                   else 'JobFailed' end),
            v_error_message);
    elsif old.status = 'doing' then
        update content_item_pipeline_state l
        set status = 'failed_retryable', error_code = coalesce(v_error_code, 'JobFailed'),
            error_message = left(v_error_message, 500), updated_at = v_now
        where l.content_item_id = v_item and l.pipeline = v_stage and l.run_id = v_run_id and l.job_id = new.id
          and l.status in ('pending', 'in_progress', 'failed_retryable');
    else
        perform clerk_reopen_unit(new.id, v_subdomain, v_run_id, v_stage, v_item);
    end if;
    return null;
end;
$$;
