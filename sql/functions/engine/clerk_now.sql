-- needs: 0017
-- The one clock. A test sets clerk.now to be at another time; nobody else does.
-- Written as a bound expression: no search_path can change what it means, and callers inline it.
create or replace function clerk_now() returns timestamptz
language sql stable
return coalesce(nullif(current_setting('clerk.now', true), '')::timestamptz, now());
