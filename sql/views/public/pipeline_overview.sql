-- needs: 0030
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
       case when s.paused_at is null and p.total > p.ended and d.ended >= 3 and d.seconds * (p.total - p.ended) / d.ended < 2592000
                 and s.subdomain in (select r.subdomain from running_jobs r where r.has_lease)
                 and s.current_stage not in (select q.queue_name from paused_queues q)
            then clerk_now() + make_interval(secs => (d.seconds * (p.total - p.ended) / d.ended)::double precision)
       end as eta,
       case when p.phase is not null then clerk_now() - coalesce(s.updated_at, s.started_at) end as idle_for,
       p.phase is not null and s.paused_at is null
           and coalesce(coalesce(s.updated_at, s.started_at) <= clerk_now() - interval '2 hours', true)
           and s.subdomain not in (select r.subdomain from running_jobs r where r.has_lease and r.subdomain is not null)
           as stuck,
       case when f.documents > 0 and coalesce(nullif(s.outcome, 'cancelled'), l.outcome) in ('succeeded', 'unchanged')
            then 'partial' else coalesce(nullif(s.outcome, 'cancelled'), l.outcome) end as last_outcome, s.failing_since,
       case when p.phase = 1 and exists (
                    select from content_items i
                    join content_item_pipeline_state u on u.content_item_id = i.id and u.pipeline = 'fetch'
                    where i.subdomain = s.subdomain and i.kind = 'archive' and u.status = 'failed_retryable'
                      and u.attempt_count >= 2) then true
            when s.outcome is null or s.outcome = 'cancelled' then coalesce(l.fetch_failed, false)
            else s.fetch_failed > 0 end as source_failing,
       coalesce(f.documents, 0) as failed_documents
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
) p
-- Not read for a site whose columns have the outcome.
left join lateral (
    select r.outcome, (r.counters #>> '{fetch,failed}')::integer > 0 as fetch_failed
    from pipeline_runs r
    where (s.outcome is null or s.outcome = 'cancelled') and r.subdomain = s.subdomain
      and r.ended_at is not null and r.outcome <> 'cancelled'
    order by r.started_at desc
    limit 1
) l on true
left join (
    select i.subdomain, count(distinct i.id) as documents
    from content_item_pipeline_state u
    join content_items i on i.id = u.content_item_id
    where u.pipeline in ('ocr', 'extraction') and u.status = 'failed_terminal' and i.kind <> 'archive'
      and clerk_is_permanent_failure(u.status, u.error_code)
    group by i.subdomain
) f on f.subdomain = s.subdomain
left join (
    select j.args ->> 'run_id' as run_id, clerk_phase(j.queue_name) as phase, count(*) as ended,
           greatest(extract(epoch from clerk_now() - min(e.at)), 10)::numeric as seconds
    from procrastinate_events e
    join procrastinate_jobs j on j.id = e.job_id
    where e.id >= clerk_first_event_since(clerk_now() - interval '15 minutes')
      and e.at >= clerk_now() - interval '15 minutes' and e.type in ('succeeded', 'failed')
    group by j.args ->> 'run_id', clerk_phase(j.queue_name)
) d on d.run_id = s.run_id::text and d.phase = clerk_phase(s.current_stage);

comment on view pipeline_overview is
    'One row per site: stage, progress, rate, ETA, whether it is stuck, counters, outcome and last error.';
comment on column pipeline_overview.phase is '1 to 4 while a run is active, else NULL.';
comment on column pipeline_overview.phase_ended is 'Units of the current phase that have succeeded or failed, of phase_total.';
comment on column pipeline_overview.percent is
    'Of the current run: each of the four phases is a quarter, whatever the number of its units. 100 when completed.';
comment on column pipeline_overview.rate_per_hour is 'Units ended per hour since the current phase began.';
comment on column pipeline_overview.eta is
    'When the current phase will end at the rate of the last 15 minutes; NULL if fewer than 3 units ended in them, no job of the site runs, the site or the stage''s queue is paused, or it would take more than 30 days.';
comment on column pipeline_overview.idle_for is 'Time since the last progress of an active run.';
comment on column pipeline_overview.stuck is
    'A run is active, the site is not paused, there was no progress for two hours, and none of its jobs has a live lease.';
comment on column pipeline_overview.last_outcome is
    'Outcome of the last run that ended, while the next one is active too; cancelled runs do not count. A site with failed documents is partial, also if a run has found nothing new since. NULL if none has ended.';
comment on column pipeline_overview.failing_since is
    'Since when every run has failed, was partial or found no documents; NULL if the last one succeeded or found nothing new.';
comment on column pipeline_overview.source_failing is
    'The fetch of the last run that ended failed, or that of the active run has failed twice and is retried.';
comment on column pipeline_overview.failed_documents is 'Documents, of any run, that could not be read or have no people and votes.';
