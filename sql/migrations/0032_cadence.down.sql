update sites set run_interval = default where run_interval is null;
alter table sites alter column run_interval set not null;
comment on column sites.run_interval is 'A site is due for its next run this long after its last progress.';
