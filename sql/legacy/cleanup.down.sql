-- Restores what cleanup.up.sql removed. A site that has changed since, or is new, gets the values that
-- clerk_sync_legacy_columns would have written, computed from its runs. Only the order of the columns differs.

do $$
declare
    v_column record;
    v_command text;
begin
    for v_column in select c.name, c.definition from legacy_columns c order by c.name loop
        execute format('alter table sites add column %I %s %s', v_column.name, v_column.definition ->> 'type',
                       'collate ' || (v_column.definition ->> 'collation'));
        execute format('comment on column sites.%I is %L', v_column.name, v_column.definition ->> 'comment');
    end loop;

    update sites s
    set status = v.status, extraction_status = v.extraction_status, last_updated = v.last_updated,
        last_deployed = v.last_deployed, last_extracted = v.last_extracted
    from legacy_column_values v
    where v.subdomain = s.subdomain
      and (v.run_id, v.current_stage, v.outcome) is not distinct from (s.run_id, s.current_stage, s.outcome);

    with changed as (
        select s.*, v.subdomain is null as is_new, coalesce(v.saved_at, '-infinity') as since,
               v.extraction_status as old_extraction_status, v.last_updated as old_last_updated,
               v.last_deployed as old_last_deployed, v.last_extracted as old_last_extracted
        from sites s
        left join legacy_column_values v on v.subdomain = s.subdomain
        where v.subdomain is null
           or (v.run_id, v.current_stage, v.outcome) is distinct from (s.run_id, s.current_stage, s.outcome)
    ), run as (
        select r.subdomain, r.run_id, m.since, coalesce(r.ended_at, p.advanced_at, r.started_at) as updated_at, r.ended_at,
               coalesce(p.extracted_at, r.ended_at) as left_extraction_at, n.deploy_completed,
               n.compilation_total > 0 as was_in_extraction,
               n.extraction_completed > 0 or n.extraction_failed = 0 and n.deploy_total > 0 as extracted,
               n.extraction_failed > 0 as extraction_failed
        from changed m
        join pipeline_runs r on r.subdomain = m.subdomain
        cross join lateral (
            select max(t.advanced_at) as advanced_at, max(t.advanced_at) filter (where t.phase = 3) as extracted_at
            from pipeline_transitions t where t.run_id = r.run_id
        ) p
        -- The counters of the current run are in sites.
        cross join lateral (
            select m.compilation_total, m.extraction_completed, m.extraction_failed, m.deploy_total, m.deploy_completed
            where r.run_id = m.run_id
            union all
            select (r.counters #>> '{compilation,total}')::integer, (r.counters #>> '{extraction,completed}')::integer,
                   (r.counters #>> '{extraction,failed}')::integer, (r.counters #>> '{deploy,total}')::integer,
                   (r.counters #>> '{deploy,completed}')::integer
            where r.run_id is distinct from m.run_id
        ) n
    ), known as (
        select r.subdomain,
               max(r.updated_at) as updated_at,
               max(r.ended_at) filter (where r.deploy_completed > 0 and r.ended_at > r.since) as deployed_at,
               max(r.left_extraction_at) filter (where r.was_in_extraction and r.extracted
                                                 and r.left_extraction_at > r.since) as extracted_at,
               (array_agg(case when r.extracted then 'completed' when r.extraction_failed then 'failed' else 'pending' end
                          order by r.left_extraction_at desc)
                filter (where r.was_in_extraction and r.left_extraction_at > r.since))[1] as extraction_status
        from run r
        group by r.subdomain
    ), written as (
        select m.subdomain, m.is_new, k.extraction_status,
               to_char(coalesce(k.updated_at, case when m.current_stage is not null then m.updated_at end)
                       at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS') as last_updated,
               coalesce(to_char(k.deployed_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS'),
                        m.old_last_deployed) as last_deployed,
               coalesce(to_char(k.extracted_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS'),
                        m.old_last_extracted) as last_extracted,
               m.old_extraction_status, m.old_last_updated
        from changed m
        left join known k on k.subdomain = m.subdomain
    )
    update sites s
    set last_updated = coalesce(w.last_updated, w.old_last_updated),
        last_deployed = w.last_deployed,
        last_extracted = w.last_extracted,
        extraction_status = case
            when s.current_stage = 'extraction' then 'in_progress'
            when w.extraction_status is not null then w.extraction_status
            when w.is_new then 'pending'
            else w.old_extraction_status end,
        status = case
            when s.current_stage is null then 'new'
            when s.current_stage = 'fetch' then 'fetching'
            when s.current_stage = 'ocr' then 'needs_ocr'
            when s.current_stage = 'compilation' then 'needs_compilation'
            when s.current_stage = 'extraction' then 'extracting'
            when s.current_stage = 'deploy' then 'needs_deploy'
            when s.outcome = 'no_documents' then 'no_documents'
            when s.outcome in ('succeeded', 'partial', 'unchanged') or w.last_deployed <> '' then 'deployed'
            -- The run failed or was cancelled and nothing is published: the status of its last stage.
            when s.deploy_total > 0 then 'needs_deploy'
            when s.compilation_total > 0 then 'extracting'
            when s.ocr_total > 0 then 'needs_ocr'
            else 'fetching' end
    from written w
    where w.subdomain = s.subdomain;

    -- After the values: otherwise the default would replace null.
    for v_column in select c.name, c.definition from legacy_columns c loop
        if v_column.definition ->> 'default' is not null then
            execute format('alter table sites alter column %I set default %s', v_column.name,
                           v_column.definition ->> 'default');
        end if;
    end loop;
    for v_command in
        select p.command from legacy_column_parts p
        where p.role is null or p.role in (select rolname from pg_roles)
        order by p.position
    loop
        execute v_command;
    end loop;
    -- After the constraints: in Postgres 18, not null is itself a named constraint.
    for v_column in select c.name, c.definition from legacy_columns c loop
        if (v_column.definition ->> 'not_null')::boolean then
            execute format('alter table sites alter column %I set not null', v_column.name);
        end if;
    end loop;
end;
$$;

alter table if exists legacy_site_progress rename to site_progress;
alter table if exists legacy_job_tracking rename to job_tracking;

drop table legacy_column_values;
drop table legacy_column_parts;
drop table legacy_columns;
