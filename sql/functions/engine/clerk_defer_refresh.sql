-- needs: 0018
-- Defers the job that starts a refresh run for a dirty site. After a delay, so that several late units that succeed
-- together cause one run.
create or replace function clerk_defer_refresh(p_subdomain text) returns void
language sql volatile
set search_path = pg_catalog, public, pg_temp
as $$
    insert into procrastinate_jobs (queue_name, task_name, queueing_lock, args, scheduled_at)
    values ('coordinator', 'clerk.refresh', 'clerk.refresh:' || p_subdomain,
            jsonb_build_object('subdomain', p_subdomain), clerk_now() + interval '10 seconds')
    on conflict (queueing_lock) where status = 'todo' do nothing
$$;
