-- needs: 0006
-- Does a stage again, for every document, and all that follows. A run that is going is superseded.
create or replace function clerk_rewind(p_subdomain text, p_stage text) returns bigint
language plpgsql volatile
set search_path = pg_catalog, public, pg_temp
as $$
begin
    perform set_config('clerk.actor', 'clerk_rewind', true);
    if clerk_phase(p_stage) is null then
        raise exception using errcode = 'KL004', message = format('%s is not a stage', p_stage);
    end if;
    return clerk_start_run(
        p_subdomain, format('rewound to %s', p_stage), true, clerk_phase(p_stage),
        -- Compiling or deploying again asks no document to be done again.
        case when p_stage in ('ocr', 'extraction') then
            array(select i.id from content_items i where i.subdomain = p_subdomain and i.kind in ('minutes', 'agenda'))
        end);
end;
$$;
