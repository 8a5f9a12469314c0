-- needs: 0018
-- Ends the open run of a site and deletes its jobs. Running jobs are asked to abort, and end as stale. Documents, ledger
-- and files stay. Counters of a site that has no run are reset. A dirty site stays dirty, so reconciliation starts its
-- refresh run again. Skips job rows that another session has locked.
create or replace function clerk_purge_site(
    p_subdomain text, out run_id bigint, out deleted_jobs integer, out running_jobs integer
)
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_site sites;
begin
    perform set_config('clerk.actor', 'clerk_purge_site', true);
    select * into v_site from sites s where s.subdomain = p_subdomain for no key update;
    if not found then
        raise exception using errcode = 'KL001', message = format('there is no site %s', p_subdomain);
    end if;
    run_id := clerk_open_run(p_subdomain);
    if run_id is not null then
        perform clerk_end_run(p_subdomain, run_id, 'cancelled', 'purged by an operator', 'RunCancelled');
    elsif v_site.run_id is null then
        update sites s
        set current_stage = null, coordinator_enqueued = false,
            fetch_total = 0, fetch_completed = 0, fetch_failed = 0,
            ocr_total = 0, ocr_completed = 0, ocr_failed = 0,
            compilation_total = 0, compilation_completed = 0, compilation_failed = 0,
            extraction_total = 0, extraction_completed = 0, extraction_failed = 0,
            deploy_total = 0, deploy_completed = 0, deploy_failed = 0
        where s.subdomain = p_subdomain and s.current_stage is not null;
    end if;

    perform set_config('clerk.actor', 'clerk_purge_site', true);
    delete from procrastinate_jobs d
    where d.id = any (array(
        select j.id
        from procrastinate_jobs j
        where j.args ->> 'subdomain' = p_subdomain and j.status <> 'doing'
        order by j.id
        for update skip locked
    ));
    get diagnostics deleted_jobs = row_count;
    select count(*) into running_jobs
    from procrastinate_jobs j
    where j.args ->> 'subdomain' = p_subdomain and j.status = 'doing';
    if run_id is not null or deleted_jobs > 0 or v_site.run_id is null and v_site.current_stage is not null then
        insert into operator_actions (action, subdomain, run_id, detail)
        values ('purge', p_subdomain, run_id, jsonb_build_object('deleted_jobs', deleted_jobs));
    end if;
end;
$$;
