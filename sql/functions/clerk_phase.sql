-- needs: 0006
-- Which phase a stage belongs to; NULL for anything else, `completed` among it.
create or replace function clerk_phase(p_stage text) returns integer
language sql immutable parallel safe
set search_path = pg_catalog, public, pg_temp
as $$
    select case p_stage when 'fetch' then 1 when 'ocr' then 2 when 'compilation' then 3 when 'extraction' then 3
                        when 'deploy' then 4 end
$$;
