drop table disk_reports;
alter table sites drop column failing_since;
