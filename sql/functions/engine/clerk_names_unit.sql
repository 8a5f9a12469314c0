-- needs: 0018
-- Whether the arguments of a job name a unit: subdomain, run, stage and content item. Their numbers can be cast then.
-- A bound expression: no search_path can change its meaning, and callers inline it.
create or replace function clerk_names_unit(p_args jsonb) returns boolean
language sql immutable parallel safe
return coalesce(p_args ->> 'run_id' ~ '^[0-9]{1,18}$' and p_args ->> 'content_item_id' ~ '^[0-9]{1,18}$'
                and clerk_phase(p_args ->> 'stage') is not null and p_args ->> 'subdomain' is not null, false);
