-- Gives back the sites table that 0001_sites.up.sql found, or drops the one it made.
-- Dynamic SQL, since what was found differs from database to database.

do $$
declare
    v_name text;
    v_found jsonb;
    v_table jsonb := (select definition from adopted_schema where kind = 'table');
begin
    if v_table is null then
        drop table sites;
        return;
    end if;

    for v_name in
        select conname from pg_constraint
        where conrelid = 'public.sites'::regclass and contype <> 'n'
          and conname not in (select name from adopted_schema where kind = 'constraint')
    loop
        execute format('alter table sites drop constraint %I', v_name);
    end loop;

    for v_name in
        select indexrelid::regclass::text from pg_index
        where indrelid = 'public.sites'::regclass
          and indexrelid::regclass::text not in (select name from adopted_schema where kind = 'index')
    loop
        execute format('drop index %s', v_name);
    end loop;

    -- The checks are gone, so what they refused may come back.
    for v_name in select distinct column_name from adopted_values loop
        execute format(
            'update sites s set %1$I = (jsonb_populate_record(s, jsonb_build_object(%2$L, v.value))).%1$I'
            ' from adopted_values v where v.subdomain = s.subdomain and v.column_name = %2$L',
            v_name, v_name);
    end loop;

    set local timezone = 'UTC';
    for v_name, v_found in
        select a.attname, found.definition
        from pg_attribute a
        left join adopted_schema found on found.kind = 'column' and found.name = a.attname
        where a.attrelid = 'public.sites'::regclass and a.attnum > 0 and not a.attisdropped
    loop
        if v_found is null then
            execute format('alter table sites drop column %I', v_name);
            continue;
        end if;
        execute format('alter table sites alter column %I %s default %s', v_name,
                       case when v_found ->> 'default' is null then 'drop' else 'set' end,
                       coalesce(v_found ->> 'default', ''));
        if not (v_found ->> 'not_null')::boolean then
            execute format('alter table sites alter column %I drop not null', v_name);
        end if;
        if v_found ->> 'type' = 'timestamp without time zone' then
            execute format('alter table sites alter column %I type timestamp', v_name);
        end if;
        execute format('comment on column sites.%I is %L', v_name, v_found ->> 'comment');
    end loop;

    alter table sites reset (fillfactor, autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold);
    for v_name in select jsonb_array_elements_text(nullif(v_table -> 'options', 'null')) loop
        execute format('alter table sites set (%s)', v_name);
    end loop;
    execute format('comment on table sites is %L', v_table ->> 'comment');
    execute format('alter table sites owner to %I', v_table ->> 'owner');
end;
$$;

drop table adopted_values;
drop table adopted_schema;
