-- needs: 0018
-- A job that is deleted while its unit is open will never report a result: the unit fails, so that its phase can end.
create or replace function clerk_record_delete() returns trigger
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_run_id bigint := case when old.args ->> 'run_id' ~ '^[0-9]{1,18}$' then (old.args ->> 'run_id')::bigint end;
    v_item bigint := case when old.args ->> 'content_item_id' ~ '^[0-9]{1,18}$'
                          then (old.args ->> 'content_item_id')::bigint end;
begin
    -- Lock order: the claim before the site. A lease renewal locks several claims, and may wait for one whose holder
    -- waits for the site.
    delete from job_claims c where c.job_id = old.id;
    if old.status in ('todo', 'doing') and v_run_id is not null and v_item is not null
       and clerk_phase(old.args ->> 'stage') is not null and old.args ->> 'subdomain' is not null then
        perform clerk_settle_unit(old.id, old.args ->> 'subdomain', v_run_id, old.args ->> 'stage', v_item, false,
                                  'JobDeleted', 'the job was deleted before it had ended');
    end if;
    return null;
end;
$$;
