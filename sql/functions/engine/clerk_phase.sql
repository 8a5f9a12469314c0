-- needs: 0017
-- Which phase a stage belongs to; NULL for anything else, `completed` among it.
-- Written as a bound expression: no search_path can change what it means, and callers inline it.
create or replace function clerk_phase(p_stage text) returns integer
language sql immutable parallel safe
return case p_stage when 'fetch' then 1 when 'ocr' then 2 when 'compilation' then 3 when 'extraction' then 3
                    when 'deploy' then 4 end;
