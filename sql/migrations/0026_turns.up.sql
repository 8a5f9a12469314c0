-- Sites take turns: a document's job has a number by which workers fetch it, and a site has a weight.

alter table sites
    add column weight integer not null default 1,
    add constraint sites_weight_check check (weight between 1 and 100);
comment on column sites.weight is 'How many jobs of the site workers take per turn, while several sites have waiting jobs.';

alter table procrastinate_jobs add column turn bigint default 0;
comment on column procrastinate_jobs.turn is
    'Jobs of equal priority are fetched in this order. Numbers of a site are 1,000,000/weight apart (start-time fair queueing). 0: first, by id. NULL: paused.';

-- Jobs that wait now take turns as well. Those that were attempted before go first.
update procrastinate_jobs j
set turn = case when not n.paused then 1 + 1000000 * (n.place - 1) end
from (
    select w.id, (w.scheduled_at = timestamptz '9000-01-01 00:00:00+00') is true as paused,
           row_number() over (partition by w.queue_name, w.args ->> 'subdomain' order by w.id) as place
    from procrastinate_jobs w
    where w.status = 'todo' and w.attempts = 0 and w.queue_name in ('ocr', 'extraction')
      and w.args ? 'content_item_id'
) n
where n.id = j.id;

drop index idx_procrastinate_jobs_queue_todo;
create index idx_procrastinate_jobs_queue_todo on procrastinate_jobs (queue_name, priority desc, turn, id)
    where status = 'todo';
