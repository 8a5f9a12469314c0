-- needs: 0030
create view pipeline_health as
select count(*) as sites,
       count(*) filter (where o.current_stage is null) as never_run,
       count(*) filter (where o.phase is not null) as active,
       count(*) filter (where o.current_stage = 'completed') as completed,
       count(*) filter (where o.outcome = 'failed') as failed,
       count(*) filter (where o.paused) as paused,
       count(*) filter (where o.dirty) as dirty,
       count(*) filter (where o.stuck) as stuck,
       coalesce(round(100.0 * count(*) filter (where o.stuck) / nullif(count(*) filter (where o.phase is not null), 0), 1),
                0) as stuck_percent,
       coalesce(round(100.0 - 100.0 * count(*) filter (where o.stuck)
                              / nullif(count(*) filter (where o.current_stage is not null), 0), 1), 100) as health_score,
       round(100.0 * sum(o.fetch_failed) / nullif(sum(o.fetch_total), 0), 1) as fetch_failure_percent,
       round(100.0 * sum(o.ocr_failed) / nullif(sum(o.ocr_total), 0), 1) as ocr_failure_percent,
       round(100.0 * sum(o.compilation_failed) / nullif(sum(o.compilation_total), 0), 1) as compilation_failure_percent,
       round(100.0 * sum(o.extraction_failed) / nullif(sum(o.extraction_total), 0), 1) as extraction_failure_percent,
       round(100.0 * sum(o.deploy_failed) / nullif(sum(o.deploy_total), 0), 1) as deploy_failure_percent,
       max(o.updated_at) as last_progress_at,
       count(*) filter (where o.last_outcome in ('succeeded', 'unchanged') and not o.stuck) as healthy,
       count(*) filter (where o.last_outcome is not null or o.stuck) as assessed,
       round(100.0 * count(*) filter (where o.last_outcome in ('succeeded', 'unchanged') and not o.stuck)
                   / nullif(count(*) filter (where o.last_outcome is not null or o.stuck), 0), 1) as healthy_percent,
       count(*) filter (where o.last_outcome = 'failed') as failing,
       count(*) filter (where o.last_outcome = 'partial') as partial,
       count(*) filter (where o.last_outcome = 'no_documents') as without_documents,
       count(*) filter (where o.source_failing) as failing_sources
from pipeline_overview o;

comment on view pipeline_health is 'One row: number of sites by state, stuck sites, and failure rate of each stage.';
comment on column pipeline_health.failed is 'Sites whose last run ended as failed.';
comment on column pipeline_health.stuck_percent is 'Of the sites with an active run.';
comment on column pipeline_health.health_score is 'Percentage of sites that have ever run and are not stuck, whatever their outcome; normally 100. See healthy_percent.';
comment on column pipeline_health.ocr_failure_percent is
    'Failed units of the stage, in the current or last run of each site. Likewise the other stages.';
comment on column pipeline_health.healthy is
    'Sites whose last run succeeded or found nothing new, that have no failed documents and are not stuck. A site that is running counts by its last run that ended.';
comment on column pipeline_health.assessed is 'Sites with a run that has ended, and stuck sites: what healthy_percent is a part of.';
comment on column pipeline_health.healthy_percent is 'healthy, of assessed; NULL if no run has ended. What `clerk status` shows.';
comment on column pipeline_health.failing is
    'Sites whose last run that ended failed. Unlike `failed`, also while the next one is active. Likewise partial and without_documents.';
comment on column pipeline_health.failing_sources is 'Sites whose last fetch failed.';
