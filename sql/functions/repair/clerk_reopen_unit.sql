-- needs: 0018
-- A finished job went back to `todo` because an operator retried it. While its phase is current and the coordinator
-- is unclaimed, the unit is pending again and no longer counted. Afterwards it is a late unit, and the counters
-- change only if it succeeds.
create or replace function clerk_reopen_unit(
    p_job_id bigint, p_subdomain text, p_run_id bigint, p_stage text, p_content_item_id bigint
) returns text
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_site sites;
    v_old_status text;
begin
    select * into v_site from sites s where s.subdomain = p_subdomain for no key update;
    select l.status into v_old_status
    from content_item_pipeline_state l
    where l.content_item_id = p_content_item_id and l.pipeline = p_stage and l.run_id = p_run_id
      and l.job_id = p_job_id and l.status in ('processed', 'failed_terminal')
    for no key update;
    if not found then
        return 'stale';
    end if;

    insert into operator_actions (action, subdomain, run_id, detail)
    values ('retry', p_subdomain, p_run_id,
            jsonb_build_object('stage', p_stage, 'units', 1, 'content_item_id', p_content_item_id, 'job_id', p_job_id));
    if v_site.run_id = p_run_id and clerk_phase(v_site.current_stage) = clerk_phase(p_stage)
       and not v_site.coordinator_enqueued then
        update content_item_pipeline_state l
        set status = 'pending', processed_at = null, updated_at = clerk_now()
        where l.content_item_id = p_content_item_id and l.pipeline = p_stage;
        perform clerk_add_to_counters(p_subdomain, p_run_id, p_stage,
                                      -(v_old_status = 'processed')::integer, -(v_old_status = 'failed_terminal')::integer);
        return 'reopened';
    end if;

    update content_item_pipeline_state l
    set reopened_at = clerk_now(), updated_at = clerk_now()
    where l.content_item_id = p_content_item_id and l.pipeline = p_stage and l.status = 'failed_terminal';
    return 'late';
end;
$$;
