-- needs: 0008
create view trigger_problems as
select o.name, case when t.oid is null then 'is missing' else 'is disabled' end as problem
from clerk_schema_objects o
left join pg_trigger t on t.tgname = o.name and not t.tgisinternal
where o.kind = 'trigger' and (t.oid is null or t.tgenabled in ('D', 'R'));

comment on view trigger_problems is 'Clerk''s triggers that are missing or disabled. Empty when all is well.';
