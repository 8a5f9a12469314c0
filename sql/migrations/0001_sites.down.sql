-- Gives back the sites table that 0001_sites.up.sql found, or drops the one it made. What others have added to
-- an adopted table since then stays. Dynamic SQL, since what was found differs from database to database.

do $$
declare
    v_table constant jsonb := (select as_found from adopted_schema where kind = 'table');
    v_commands text[];
    v_command text;
begin
    if v_table is null then
        drop table sites;
        return;
    end if;

    -- Checks and not null go first: they would refuse the values that come back.
    select array_agg(command.text) into v_commands
    from adopted_schema part
    left join pg_attribute a
        on a.attrelid = 'sites'::regclass and a.attname = part.name and part.kind = 'column' and not a.attisdropped
    cross join lateral (values
        (case when part.kind = 'constraint' and part.as_found is null
              then format('alter table sites drop constraint if exists %I', part.name) end),
        (case when part.kind = 'index' and part.as_found is null
              then format('drop index if exists %s', part.name) end),
        (case when part.as_found ->> 'not_null' = 'false' and a.attnotnull
              then format('alter table sites alter column %I drop not null', part.name) end)
    ) command (text)
    where command.text is not null;
    foreach v_command in array coalesce(v_commands, '{}') loop
        execute v_command;
    end loop;

    -- Only where nobody has written since: a counter that has counted tells more than the one that was found.
    update sites s set (
        current_stage, coordinator_enqueued,
        fetch_total, fetch_completed, fetch_failed, ocr_total, ocr_completed, ocr_failed,
        compilation_total, compilation_completed, compilation_failed,
        extraction_total, extraction_completed, extraction_failed, deploy_total, deploy_completed, deploy_failed
    ) = (
        select coalesce(s.current_stage, f.current_stage),
               case when s.coordinator_enqueued then true else f.coordinator_enqueued end,
               case s.fetch_total when 0 then f.fetch_total else s.fetch_total end,
               case s.fetch_completed when 0 then f.fetch_completed else s.fetch_completed end,
               case s.fetch_failed when 0 then f.fetch_failed else s.fetch_failed end,
               case s.ocr_total when 0 then f.ocr_total else s.ocr_total end,
               case s.ocr_completed when 0 then f.ocr_completed else s.ocr_completed end,
               case s.ocr_failed when 0 then f.ocr_failed else s.ocr_failed end,
               case s.compilation_total when 0 then f.compilation_total else s.compilation_total end,
               case s.compilation_completed when 0 then f.compilation_completed else s.compilation_completed end,
               case s.compilation_failed when 0 then f.compilation_failed else s.compilation_failed end,
               case s.extraction_total when 0 then f.extraction_total else s.extraction_total end,
               case s.extraction_completed when 0 then f.extraction_completed else s.extraction_completed end,
               case s.extraction_failed when 0 then f.extraction_failed else s.extraction_failed end,
               case s.deploy_total when 0 then f.deploy_total else s.deploy_total end,
               case s.deploy_completed when 0 then f.deploy_completed else s.deploy_completed end,
               case s.deploy_failed when 0 then f.deploy_failed else s.deploy_failed end
        from jsonb_populate_record(s, v.as_found) f
    )
    from adopted_values v
    where v.subdomain = s.subdomain;

    -- Plain timestamps were in UTC; with this zone set the table is not rewritten.
    set local timezone = 'UTC';
    -- Types before defaults, since a default is converted along with its column.
    select array_agg(command.text order by command.place) into v_commands
    from adopted_schema part
    join pg_attribute a on a.attrelid = 'sites'::regclass and a.attname = part.name and not a.attisdropped
    left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
    cross join lateral (values
        (1, case when part.as_found is null then format('alter table sites drop column %I', part.name) end),
        (2, case when format_type(a.atttypid, a.atttypmod) <> part.as_found ->> 'type'
                 then format('alter table sites alter column %I type %s', part.name, part.as_found ->> 'type') end),
        (3, case when part.as_found is not null
                      and pg_get_expr(d.adbin, d.adrelid) is distinct from part.as_found ->> 'default'
                 then format('alter table sites alter column %I %s', part.name,
                             coalesce('set default ' || (part.as_found ->> 'default'), 'drop default')) end),
        (4, case when part.as_found is not null
                      and col_description(a.attrelid, a.attnum) is distinct from part.as_found ->> 'comment'
                 then format('comment on column sites.%I is %L', part.name, part.as_found ->> 'comment') end)
    ) command (place, text)
    where part.kind = 'column' and command.text is not null;
    foreach v_command in array coalesce(v_commands, '{}') loop
        execute v_command;
    end loop;

    alter table sites reset (fillfactor, autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold);
    for v_command in
        select format('alter table sites set (%s)', jsonb_array_elements_text(nullif(v_table -> 'options', 'null')))
    loop
        execute v_command;
    end loop;
    execute format('comment on table sites is %L', v_table ->> 'comment');
    execute format('alter table sites owner to %I', v_table ->> 'owner');
end;
$$;

drop table adopted_values;
drop table adopted_schema;
