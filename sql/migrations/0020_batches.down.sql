-- Procrastinate's own triggers notify workers and record events again.
do $$
declare
    v_trigger text;
begin
    for v_trigger in
        select t.tgname from pg_trigger t
        where t.tgrelid = 'procrastinate_jobs'::regclass and t.tgname like 'procrastinate\_%' and t.tgenabled = 'D'
    loop
        execute format('alter table procrastinate_jobs enable trigger %I', v_trigger);
    end loop;
end;
$$;

alter table procrastinate_jobs reset (autovacuum_vacuum_scale_factor, autovacuum_analyze_scale_factor);
alter table procrastinate_events reset (autovacuum_vacuum_scale_factor);

drop index idx_sites_paused;
drop type clerk_unit_end;
drop type clerk_job_change;
