-- needs: 0031
-- A job that is deleted while its unit is open will never report a result: the unit fails, so that its phase can end.
create or replace function clerk_record_delete() returns trigger
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set jit = off
as $$
declare
    v_ends clerk_unit_end[];
begin
    -- Lock order: the claims before the site. A lease renewal locks several claims, and may wait for one whose holder
    -- waits for the site.
    delete from job_claims c where c.job_id = any (array(select o.id from old_jobs o order by o.id));
    delete from job_errors e where e.job_id = any (array(select o.id from old_jobs o));
    v_ends := array(
        select row(o.id, o.args ->> 'subdomain', (o.args ->> 'run_id')::bigint, o.args ->> 'stage',
                   (o.args ->> 'content_item_id')::bigint, false, 'JobDeleted',
                   'the job was deleted before it had ended')::clerk_unit_end
        from old_jobs o
        where o.status in ('todo', 'doing') and clerk_names_unit(o.args)
        order by o.id
    );
    if v_ends <> '{}' then
        perform clerk_settle_units(v_ends);
    end if;
    return null;
end;
$$;
