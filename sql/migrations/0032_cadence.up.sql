-- How often a site is fetched can be "never": no interval.
alter table sites alter column run_interval drop not null;
comment on column sites.run_interval is
    'A site is due for its next run this long after its last progress. NULL: runs are started by operators only.';
