-- Three roles to grant to login users. What each may do is in sql/grants.sql, which is applied again after
-- every change of the schema.

do $$
declare
    v_role text;
begin
    foreach v_role in array array['clerk_owner', 'clerk_worker', 'clerk_dashboard'] loop
        continue when exists (select from pg_roles where rolname = v_role);
        if not exists (select from pg_roles where rolname = current_user and (rolsuper or rolcreaterole)) then
            raise notice using message = format(
                'the role %s was not made, for %s may not create roles: let an administrator run'
                ' "create role %s nologin" and then run "clerk db up" again', v_role, current_user, v_role);
            continue;
        end if;
        begin
            execute format('create role %I nologin', v_role);
            if not (select rolsuper from pg_roles where rolname = current_user) then
                execute format('grant %I to %I', v_role, current_user);
            end if;
        exception
            -- Roles belong to the whole server: another database's migration may have been quicker.
            when duplicate_object or unique_violation then null;
        end;
    end loop;
end;
$$;
