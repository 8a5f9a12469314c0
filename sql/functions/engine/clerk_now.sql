-- needs: 0018
-- The clock of all functions and views. Tests set clerk.now to another time; nothing else does.
-- A bound expression: no search_path can change its meaning, and callers inline it.
create or replace function clerk_now() returns timestamptz
language sql stable
return coalesce(nullif(current_setting('clerk.now', true), '')::timestamptz, now());
