-- needs: 0017
-- Has a worker reconcile now instead of at the next quarter of an hour. False if one waits for a worker already.
create or replace function clerk_defer_reconciliation() returns boolean
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
begin
    perform set_config('clerk.actor', 'clerk_defer_reconciliation', true);
    -- As the clock defers it: same task, same lock, so that the two never queue up behind each other.
    insert into procrastinate_jobs (queue_name, task_name, queueing_lock, args)
    values ('coordinator', 'clerk.reconcile', 'clerk.reconcile',
            jsonb_build_object('timestamp', extract(epoch from clerk_now())::bigint))
    on conflict (queueing_lock) where status = 'todo' do nothing;
    if not found then
        return false;
    end if;
    insert into operator_actions (action) values ('reconcile');
    return true;
end;
$$;
