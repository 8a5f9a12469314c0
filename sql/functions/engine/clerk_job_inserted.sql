-- needs: 0018
-- Payload of Procrastinate's notification of a waiting job.
-- A bound expression: no search_path can change its meaning, and callers inline it.
create or replace function clerk_job_inserted(p_job_id bigint) returns text
language sql immutable parallel safe
return format('{"type": "job_inserted", "job_id": %s}', p_job_id);
