-- needs: 0030
create view host_disks as
select d.host, d.folder, d.purpose, d.free_bytes, d.total_bytes,
       round(100.0 * (d.total_bytes - d.free_bytes) / d.total_bytes, 1) as used_percent, d.low_since, d.reported_at
from disk_reports d
where d.reported_at >= clerk_now() - interval '10 minutes';

comment on view host_disks is
    'Disks that workers write to, one row per machine and disk, as reported within the last ten minutes.';
comment on column host_disks.purpose is 'What is on the disk: storage, published archives, database, cache, temporary files.';
comment on column host_disks.low_since is
    'Since when less than a tenth and less than 20 GB are free; NULL if more is.';
