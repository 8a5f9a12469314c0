-- needs: 0018
-- Starts a run of a site, by default from phase 1. Raises KL002 if the site has an open run, unless p_supersede is set.
-- p_units: the documents of the first phase; NULL lets the phase select them.
create or replace function clerk_start_run(
    p_subdomain text, p_reason text default 'requested', p_supersede boolean default false,
    p_first_phase integer default 1, p_units bigint[] default null
) returns bigint
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_site sites;
    v_run_id bigint;
    v_superseded bigint;
begin
    perform set_config('clerk.actor', 'clerk_start_run', true);
    select * into v_site from sites s where s.subdomain = p_subdomain for no key update;
    if not found then
        raise exception using errcode = 'KL001', message = format('there is no site %s', p_subdomain);
    end if;
    v_superseded := clerk_open_run(p_subdomain);
    if v_superseded is not null then
        if not p_supersede then
            raise exception using errcode = 'KL002',
                message = format('run %s of %s is in progress (%s)', v_superseded, p_subdomain, v_site.current_stage);
        end if;
        perform clerk_supersede_run(p_subdomain, p_reason);
    end if;

    insert into pipeline_runs (subdomain, reason, started_at) values (p_subdomain, p_reason, clerk_now())
    returning run_id into v_run_id;
    insert into content_items (subdomain, kind) values (p_subdomain, 'archive') on conflict do nothing;
    update sites s
    set run_id = v_run_id, outcome = null, started_at = clerk_now(),
        fetch_total = 0, fetch_completed = 0, fetch_failed = 0,
        ocr_total = 0, ocr_completed = 0, ocr_failed = 0,
        compilation_total = 0, compilation_completed = 0, compilation_failed = 0,
        extraction_total = 0, extraction_completed = 0, extraction_failed = 0,
        deploy_total = 0, deploy_completed = 0, deploy_failed = 0
    where s.subdomain = p_subdomain;
    perform clerk_start_phase(p_subdomain, v_run_id, p_first_phase, p_units);
    if v_superseded is not null then
        insert into operator_actions (action, subdomain, run_id, detail)
        values ('supersede', p_subdomain, v_run_id,
                jsonb_build_object('superseded', v_superseded, 'reason', p_reason));
    end if;
    return v_run_id;
end;
$$;
