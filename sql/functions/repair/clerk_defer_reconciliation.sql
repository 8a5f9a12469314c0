-- needs: 0018
-- Defers a reconciliation now instead of waiting for the next periodic one. False if one already waits.
create or replace function clerk_defer_reconciliation() returns boolean
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
begin
    perform set_config('clerk.actor', 'clerk_defer_reconciliation', true);
    -- Same task and queueing lock as the periodic one, so that only one of them waits.
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
