-- needs: 0017
-- Retention: deletes repairs, reconciliations and operator actions after 90 days. Returns the number of deleted repairs.
--
-- Security definer, because clerk_worker may only add rows to audit tables. Hence the age is fixed, the clock is now()
-- and not clerk_now(), which a session can set, and no schema of the search_path contains objects of other users.
create or replace function clerk_delete_old_records() returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    v_repairs bigint;
begin
    delete from public.reconcile_runs r where r.started_at < now() - interval '90 days';
    delete from public.operator_actions a where a.at < now() - interval '90 days';
    delete from public.reconcile_log l where l.at < now() - interval '90 days';
    get diagnostics v_repairs = row_count;
    return v_repairs;
end;
$$;
