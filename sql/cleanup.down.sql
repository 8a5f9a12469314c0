-- Gives back what cleanup.up.sql set aside. A site that was added since has no older values.

do $$
declare
    v_column record;
begin
    for v_column in select c.name, c.definition from adopted_older_columns c loop
        execute format('alter table sites add column %I %s', v_column.name, v_column.definition ->> 'type');
        execute format('comment on column sites.%I is %L', v_column.name, v_column.definition ->> 'comment');
    end loop;

    update sites s
    set status = v.status, extraction_status = v.extraction_status, last_updated = v.last_updated,
        last_deployed = v.last_deployed, last_extracted = v.last_extracted
    from adopted_older_values v
    where v.subdomain = s.subdomain;

    -- After the values: a default would otherwise stand where nothing stood.
    for v_column in select c.name, c.definition from adopted_older_columns c loop
        if v_column.definition ->> 'default' is not null then
            execute format('alter table sites alter column %I set default %s', v_column.name,
                           v_column.definition ->> 'default');
        end if;
        if (v_column.definition ->> 'not_null')::boolean then
            execute format('alter table sites alter column %I set not null', v_column.name);
        end if;
    end loop;
end;
$$;

alter table if exists adopted_site_progress rename to site_progress;
alter table if exists adopted_job_tracking rename to job_tracking;

drop table adopted_older_values;
drop table adopted_older_columns;
