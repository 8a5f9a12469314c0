-- needs: 0018
-- until: cleanup
-- clerk_import_site for a site of legacy clerk, whose values before that are recorded in reconcile_log.
create or replace function clerk_import_legacy_site(
    p_subdomain text, p_documents jsonb, p_phase integer, p_started_at timestamptz default null,
    p_updated_at timestamptz default null
) returns bigint
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_site sites;
    v_run_id bigint;
    -- Not the whole row: other columns of a legacy row may hold JSON that jsonb rejects.
    v_before jsonb;
begin
    perform set_config('clerk.actor', 'clerk_import_legacy_site', true);
    select * into v_site from sites s where s.subdomain = p_subdomain for no key update;
    if not found then
        raise exception using errcode = 'KL001', message = format('there is no site %s', p_subdomain);
    end if;
    if v_site.run_id is not null then
        return null;
    end if;

    select to_jsonb(legacy) into v_before
    from (select v_site.status, v_site.extraction_status, v_site.last_updated, v_site.last_deployed,
                 v_site.last_extracted, v_site.current_stage, v_site.coordinator_enqueued, v_site.started_at,
                 v_site.updated_at, v_site.fetch_total, v_site.fetch_completed, v_site.fetch_failed,
                 v_site.ocr_total, v_site.ocr_completed, v_site.ocr_failed,
                 v_site.compilation_total, v_site.compilation_completed, v_site.compilation_failed,
                 v_site.extraction_total, v_site.extraction_completed, v_site.extraction_failed,
                 v_site.deploy_total, v_site.deploy_completed, v_site.deploy_failed) legacy;

    v_run_id := clerk_import_site(p_subdomain, p_documents, p_phase, 'migrated from legacy clerk', p_started_at, p_updated_at);
    if v_run_id is null then
        return null;
    end if;
    insert into reconcile_log (reconciliation, subdomain, run_id, stage, found, done, why, before, after)
    select gen_random_uuid(), p_subdomain, v_run_id, o.current_stage, 'an unfinished run of legacy clerk',
           format('%s/%s completed, %s failed', o.ocr_completed, o.ocr_total, o.ocr_failed),
           'migrated from legacy clerk', v_before, to_jsonb(o)
    from pipeline_overview o
    where o.subdomain = p_subdomain;
    return v_run_id;
end;
$$;
