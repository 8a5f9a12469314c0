-- needs: 0031
-- Records all changes of status that a statement made in events, claims, ledger and counters, in the transaction of the
-- change. sql/README.md has the table of transitions. Must never raise on bad data: finish_job would fail, and the job
-- would stay `doing`.
create or replace function clerk_record_change() returns trigger
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
-- A plan that was cached while a table was empty is used when it is large. `= any (array (…))` on each table, besides the
-- join, makes every plan look up only these rows; `status not in (…)` excludes the indexes on open units.
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
    v_now timestamptz := clerk_now();
    v_changes clerk_job_change[];
    v_claimed boolean;
    v_settled boolean;
    v_ends clerk_unit_end[];
    v_error_code text := nullif(current_setting('clerk.error_code', true), '');
    v_error_message text := nullif(current_setting('clerk.error_message', true), '');
    -- 1 if a retried attempt does not count towards the maximum, else 0.
    v_uncounted integer := case when current_setting('clerk.uncounted', true) = '1' then 1 else 0 end;
    v_change clerk_job_change;
begin
    -- A full join, because a cached plan of an inner join may be a nested loop over both tables.
    select array_agg(row(n.id, o.status, n.status, n.attempts, n.args ->> 'subdomain',
                         case when job.is_unit then (n.args ->> 'run_id')::bigint end, n.args ->> 'stage',
                         case when job.is_unit then (n.args ->> 'content_item_id')::bigint end)::clerk_job_change
                     order by n.id),
           coalesce(bool_or(n.status = 'doing'), false),
           coalesce(bool_or(n.status <> 'doing'), false)
    into v_changes, v_claimed, v_settled
    from old_jobs o
    full join new_jobs n on n.id = o.id
    cross join lateral (select clerk_names_unit(n.args) as is_unit offset 0) job
    where o.status is distinct from n.status;
    if v_changes is null then
        return null;
    end if;

    insert into procrastinate_events (job_id, type)
    select c.job_id, clerk_event_type(c.old_status, c.status)
    from unnest(v_changes) c
    where clerk_event_type(c.old_status, c.status) is not null;

    if v_claimed then
        insert into job_claims as c (job_id, holder, attempt, claimed_at, lease_until)
        select n.job_id, current_setting('application_name'), n.attempt, v_now,
               v_now + coalesce((select p.lease from stage_policy p where p.stage = n.stage), interval '2 minutes')
        from unnest(v_changes) n
        where n.status = 'doing'
        on conflict (job_id) do update
        set holder = excluded.holder, attempt = excluded.attempt, claimed_at = excluded.claimed_at,
            lease_until = excluded.lease_until, progress = 0, progress_total = null, progress_at = null,
            settled_as = null, settled_at = null, settled_by = null;

        update content_item_pipeline_state l
        set status = 'in_progress', attempt_count = l.attempt_count + 1, last_attempt_at = v_now, updated_at = v_now
        from unnest(v_changes) n
        where l.content_item_id = any (array(select u.content_item_id from unnest(v_changes) u where u.status = 'doing'))
          and n.status = 'doing' and l.content_item_id = n.content_item_id and l.pipeline = n.stage
          and l.run_id = n.run_id and l.job_id = n.job_id
          and l.status not in ('processed', 'failed_terminal');
    end if;
    if not v_settled then
        return null;
    end if;

    -- Lock order: claims in order of the job, before any site.
    update job_claims c
    set settled_as = n.status, settled_at = v_now,
        settled_by = coalesce(nullif(current_setting('clerk.actor', true), ''), current_setting('application_name')),
        uncounted_attempts = c.uncounted_attempts
            + case when n.old_status = 'doing' and n.status = 'todo' then v_uncounted else 0 end
    from unnest(v_changes) n
    where c.job_id = any (array(select u.job_id from unnest(v_changes) u)) and c.job_id = n.job_id
      and n.status <> 'doing' and (n.old_status = 'doing' or n.status <> 'todo');

    update content_item_pipeline_state l
    set status = 'failed_retryable', error_code = coalesce(v_error_code, 'JobFailed'),
        error_message = left(v_error_message, 500), updated_at = v_now,
        attempt_count = greatest(l.attempt_count - v_uncounted, 0)
    from unnest(v_changes) n
    where l.content_item_id = any (array(select u.content_item_id from unnest(v_changes) u where u.status = 'todo'))
      and n.old_status = 'doing' and n.status = 'todo' and l.content_item_id = n.content_item_id
      and l.pipeline = n.stage and l.run_id = n.run_id and l.job_id = n.job_id
      and l.status not in ('processed', 'failed_terminal');

    -- Only after an error, so that successes cost nothing. The attempts of the change include the one that failed.
    if v_error_code is not null then
        insert into job_errors as e (job_id, attempt, at, holder, error_code, error_message, traceback)
        select n.job_id, n.attempt, v_now, coalesce(c.holder, current_setting('application_name')), v_error_code,
               left(v_error_message, 500), left(nullif(current_setting('clerk.traceback', true), ''), 8000)
        from unnest(v_changes) n
        left join job_claims c on c.job_id = n.job_id and c.job_id = any (array(select u.job_id from unnest(v_changes) u))
        where n.old_status = 'doing' and n.status not in ('doing', 'succeeded')
        on conflict (job_id, attempt) do update
        set at = excluded.at, holder = excluded.holder, error_code = excluded.error_code,
            error_message = excluded.error_message, traceback = excluded.traceback;

        delete from job_errors e
        using unnest(v_changes) n
        where e.job_id = any (array(select u.job_id from unnest(v_changes) u)) and e.job_id = n.job_id
          and e.attempt <= n.attempt - 10;
    end if;

    v_ends := array(
        select row(n.job_id, n.subdomain, n.run_id, n.stage, n.content_item_id, n.status = 'succeeded',
                   coalesce(v_error_code, case n.status when 'cancelled' then 'JobCancelled'
                                                        when 'aborted' then 'JobAborted' else 'JobFailed' end),
                   v_error_message)::clerk_unit_end
        from unnest(v_changes) n
        where n.status not in ('doing', 'todo') and n.content_item_id is not null
    );
    if v_ends <> '{}' then
        perform clerk_settle_units(v_ends);
    end if;

    -- Retried by an operator, in order of the site for the lock order.
    for v_change in
        select n.* from unnest(v_changes) n
        where n.status = 'todo' and n.old_status <> 'doing' and n.content_item_id is not null
        order by n.subdomain, n.job_id
    loop
        perform clerk_reopen_unit(v_change.job_id, v_change.subdomain, v_change.run_id, v_change.stage,
                                  v_change.content_item_id);
    end loop;
    return null;
end;
$$;
