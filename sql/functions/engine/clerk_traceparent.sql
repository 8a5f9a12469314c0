-- needs: 0018
-- Trace context of a run, for the arguments of its jobs: https://www.w3.org/TR/trace-context/#traceparent-header. The ids
-- follow from site and run; clerk/telemetry/trace_context.py computes the same.
-- A bound expression: no search_path can change its meaning.
create or replace function clerk_traceparent(p_subdomain text, p_run_id bigint) returns text
language sql immutable parallel safe
return (
    select '00-' || left(d.digits, 32) || '-' || substr(d.digits, 33, 16) || '-01'
    from (select encode(sha256(convert_to('clerk run ' || p_run_id::text || ' ' || p_subdomain, 'UTF8')), 'hex') as digits) d
);
