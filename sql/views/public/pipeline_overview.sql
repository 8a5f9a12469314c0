-- needs: 0018
create view pipeline_overview as
select s.subdomain, s.name, s.current_stage, s.outcome, s.run_id, s.started_at, s.updated_at,
       s.fetch_total, s.fetch_completed, s.fetch_failed,
       s.ocr_total, s.ocr_completed, s.ocr_failed,
       s.compilation_total, s.compilation_completed, s.compilation_failed,
       s.extraction_total, s.extraction_completed, s.extraction_failed,
       s.deploy_total, s.deploy_completed, s.deploy_failed,
       s.last_error_stage, s.last_error_message, s.last_error_at,
       s.paused_at is not null as paused, s.paused_at, s.paused_by, s.dirty, s.run_interval,
       p.phase, p.total as phase_total, p.ended as phase_ended, p.began_at as phase_began_at,
       case when s.current_stage = 'completed' then 100
            else round(25.0 * (p.phase - 1) + 25.0 * coalesce(least(1, p.ended::numeric / nullif(p.total, 0)), 1), 1)
       end as percent,
       round(p.ended * 3600 / p.seconds, 1) as rate_per_hour,
       case when s.paused_at is null and p.ended > 0
            then clerk_now() + make_interval(secs => (p.seconds * greatest(p.total - p.ended, 0) / p.ended)::double precision)
       end as eta,
       case when p.phase is not null then clerk_now() - coalesce(s.updated_at, s.started_at) end as idle_for,
       p.phase is not null and s.paused_at is null
           and coalesce(coalesce(s.updated_at, s.started_at) <= clerk_now() - interval '2 hours', true)
           and s.subdomain not in (select r.subdomain from running_jobs r where r.has_lease and r.subdomain is not null)
           as stuck
from sites s
cross join lateral (
    select n.phase, n.total, n.ended, n.began_at,
           greatest(extract(epoch from clerk_now() - n.began_at), 1)::numeric as seconds
    from (
        select clerk_phase(s.current_stage) as phase,
               case clerk_phase(s.current_stage)
                   when 1 then s.fetch_total
                   when 2 then s.ocr_total
                   when 3 then s.compilation_total + s.extraction_total
                   when 4 then s.deploy_total end as total,
               case clerk_phase(s.current_stage)
                   when 1 then s.fetch_completed + s.fetch_failed
                   when 2 then s.ocr_completed + s.ocr_failed
                   when 3 then s.compilation_completed + s.compilation_failed
                               + s.extraction_completed + s.extraction_failed
                   when 4 then s.deploy_completed + s.deploy_failed end as ended,
               case when clerk_phase(s.current_stage) is not null
                    then coalesce((select t.advanced_at from pipeline_transitions t
                                   where t.run_id = s.run_id and t.phase = clerk_phase(s.current_stage) - 1),
                                  s.started_at) end as began_at
    ) n
) p;

comment on view pipeline_overview is
    'One row per site: stage, progress, rate, ETA, whether it is stuck, counters, outcome and last error.';
comment on column pipeline_overview.phase is '1 to 4 while a run is active, else NULL.';
comment on column pipeline_overview.phase_ended is 'Units of the current phase that have succeeded or failed, of phase_total.';
comment on column pipeline_overview.percent is
    'Of the current run: each of the four phases is a quarter, whatever the number of its units. 100 when completed.';
comment on column pipeline_overview.rate_per_hour is 'Units ended per hour since the current phase began.';
comment on column pipeline_overview.eta is
    'When the current phase will end at its rate so far; NULL while paused, and before its first unit has ended.';
comment on column pipeline_overview.idle_for is 'Time since the last progress of an active run.';
comment on column pipeline_overview.stuck is
    'A run is active, the site is not paused, there was no progress for two hours, and none of its jobs has a live lease.';
