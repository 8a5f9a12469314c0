-- needs: 0030
create view site_throughput as
select j.args ->> 'subdomain' as subdomain, j.queue_name as stage, count(*) as jobs,
       coalesce(sum(i.page_count), 0)::bigint as pages
from procrastinate_events e
join procrastinate_jobs j on j.id = e.job_id
left join content_items i
    on i.id = case when j.args ->> 'content_item_id' ~ '^[0-9]{1,18}$' then (j.args ->> 'content_item_id')::bigint end
where e.id >= clerk_first_event_since(clerk_now() - interval '5 minutes')
  and e.at >= clerk_now() - interval '5 minutes' and e.type = 'succeeded'
group by 1, 2;

comment on view site_throughput is
    'Per site and stage: jobs that succeeded in the last five minutes, and the pages of their documents. Filter by subdomain.';
comment on column site_throughput.pages is 'Of documents in a stage that works on documents, such as ocr; otherwise 0.';
