-- needs: 0024
-- Repeats a stage for every document, and all later stages, in a new run. Supersedes an open run.
-- p_force_ocr: every page is processed again, by OCR, whatever its text layer; only for the stage ocr.
create or replace function clerk_rewind(p_subdomain text, p_stage text, p_force_ocr boolean default false)
returns bigint
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
declare
    v_run_id bigint;
begin
    perform set_config('clerk.actor', 'clerk_rewind', true);
    if clerk_phase(p_stage) is null then
        raise exception using errcode = 'KL004', message = format('%s is not a stage', p_stage);
    end if;
    if p_force_ocr and p_stage <> 'ocr' then
        raise exception using errcode = '22023', message = format('OCR cannot be forced when rewinding to %s', p_stage);
    end if;
    perform from sites s where s.subdomain = p_subdomain for no key update;
    perform clerk_supersede_run(p_subdomain, format('rewound to %s', p_stage));
    v_run_id := clerk_start_run(
        p_subdomain, format('rewound to %s', p_stage), false, clerk_phase(p_stage),
        -- Repeating compilation or deploy repeats no document.
        case when p_stage in ('ocr', 'extraction') then
            array(select i.id from content_items i where i.subdomain = p_subdomain and i.kind <> 'archive')
        end);
    -- In the same transaction as the jobs, so that no job can start before.
    update pipeline_runs r set force_ocr = true where r.run_id = v_run_id and p_force_ocr;
    insert into operator_actions (action, subdomain, run_id, detail)
    values ('rewind', p_subdomain, v_run_id,
            jsonb_build_object('stage', p_stage)
            || case when p_force_ocr then jsonb_build_object('force_ocr', true) else '{}' end);
    return v_run_id;
end;
$$;
