-- Since when a site has not succeeded, and the free space of the workers' disks.

alter table sites add column failing_since timestamptz;
comment on column sites.failing_since is
    'End of the first run, after the last one that succeeded or found nothing new, that failed, was partial or found no documents. NULL: the last run succeeded, or none has ended.';
update sites s
set failing_since = f.since
from (
    select r.subdomain, min(r.ended_at) as since
    from pipeline_runs r
    where r.outcome in ('failed', 'partial', 'no_documents')
      and not exists (select from pipeline_runs later
                      where later.subdomain = r.subdomain and later.run_id > r.run_id
                        and later.outcome in ('succeeded', 'unchanged'))
    group by r.subdomain
) f
where f.subdomain = s.subdomain;

create table disk_reports (
    host text not null,
    folder text not null,
    purpose text not null,
    free_bytes bigint not null,
    total_bytes bigint not null,
    reported_at timestamptz not null default now(),
    low_since timestamptz,
    primary key (host, folder),
    constraint disk_reports_bytes_check check (free_bytes >= 0 and total_bytes > 0)
);
comment on table disk_reports is
    'Free space of the disks that workers write to, one row per machine and disk, reported every minute.';
comment on column disk_reports.low_since is 'Since when little space is free; NULL if enough is.';
