-- Drops Procrastinate's schema, for which its package has no file. Its objects are recognised by name.

do $$
declare
    v_object text;
begin
    for v_object in
        select oid::regclass::text from pg_class
        where relnamespace = 'public'::regnamespace and relkind = 'r' and relname like 'procrastinate\_%'
    loop
        execute format('drop table %s cascade', v_object);
    end loop;
    for v_object in
        select oid::regprocedure::text from pg_proc
        where pronamespace = 'public'::regnamespace and proname like 'procrastinate\_%'
    loop
        execute format('drop function %s', v_object);
    end loop;
    for v_object in
        select oid::regtype::text from pg_type
        where typnamespace = 'public'::regnamespace and typname like 'procrastinate\_%' and typtype in ('e', 'c')
    loop
        execute format('drop type %s', v_object);
    end loop;
end;
$$;
