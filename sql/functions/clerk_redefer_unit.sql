-- needs: 0006
-- An open unit of the present phase whose job is gone gets a new one.
create or replace function clerk_redefer_unit(p_content_item_id bigint, p_stage text) returns boolean
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_subdomain text := (select i.subdomain from content_items i where i.id = p_content_item_id);
    v_run_id bigint;
begin
    perform set_config('clerk.actor', 'clerk_redefer_unit', true);
    select s.run_id into v_run_id from sites s where s.subdomain = v_subdomain for no key update;
    perform from content_item_pipeline_state l
    where l.content_item_id = p_content_item_id and l.pipeline = p_stage and l.run_id = v_run_id
      and l.status in ('pending', 'in_progress', 'failed_retryable')
      and not exists (select from procrastinate_jobs j where j.id = l.job_id and j.status in ('todo', 'doing'));
    if not found then
        return false;
    end if;
    perform clerk_defer_unit(v_subdomain, v_run_id, p_stage, p_content_item_id);
    return true;
end;
$$;
