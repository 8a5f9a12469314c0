-- Three roles to grant to login users. What each may do is in sql/grants.sql, which is applied again after
-- every change of the schema.

do $$
declare
    v_missing constant text[] := array(
        select wanted.name
        from unnest(array['clerk_owner', 'clerk_worker', 'clerk_dashboard']) with ordinality wanted (name, place)
        where not exists (select from pg_roles where rolname = wanted.name)
        order by wanted.place);
    v_me constant pg_roles := (select r from pg_roles r where r.rolname = current_user);
    v_role text;
begin
    if v_missing <> '{}' and not (v_me.rolsuper or v_me.rolcreaterole) then
        -- KL000 marks a notice that the migrator shows.
        raise notice using errcode = 'KL000', message = format(
            '%1$s may not create roles, so %2$s do not exist, and all else is done: if you want them, let an'
            ' administrator run "create role" for each and "grant clerk_owner to %1$s", then run "clerk db up" again',
            quote_ident(current_user), array_to_string(v_missing, ', '));
        return;
    end if;

    foreach v_role in array v_missing loop
        begin
            execute format('create role %I nologin', v_role);
            if not v_me.rolsuper then
                execute format('grant %I to %I', v_role, current_user);
            end if;
        exception
            -- Roles belong to the whole server: another database's migration may have been quicker.
            when duplicate_object or unique_violation then null;
        end;
    end loop;
end;
$$;
