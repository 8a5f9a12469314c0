-- needs: 0018
-- The phase of a stage; NULL for anything else, including `completed`.
-- A bound expression: no search_path can change its meaning, and callers inline it.
create or replace function clerk_phase(p_stage text) returns integer
language sql immutable parallel safe
return case p_stage when 'fetch' then 1 when 'ocr' then 2 when 'compilation' then 3 when 'extraction' then 3
                    when 'deploy' then 4 end;
