-- needs: 0018
create view expected_counters as
select s.subdomain, s.run_id,
       n.fetch_total, n.fetch_completed, n.fetch_failed,
       n.ocr_total, n.ocr_completed, n.ocr_failed,
       n.compilation_total, n.compilation_completed, n.compilation_failed,
       n.extraction_total, n.extraction_completed, n.extraction_failed,
       n.deploy_total, n.deploy_completed, n.deploy_failed
from sites s
cross join lateral (
    select count(*) filter (where l.pipeline = 'fetch') as fetch_total,
           count(*) filter (where l.pipeline = 'fetch' and l.status = 'processed') as fetch_completed,
           count(*) filter (where l.pipeline = 'fetch' and l.status = 'failed_terminal') as fetch_failed,
           count(*) filter (where l.pipeline = 'ocr') as ocr_total,
           count(*) filter (where l.pipeline = 'ocr' and l.status = 'processed') as ocr_completed,
           count(*) filter (where l.pipeline = 'ocr' and l.status = 'failed_terminal') as ocr_failed,
           count(*) filter (where l.pipeline = 'compilation') as compilation_total,
           count(*) filter (where l.pipeline = 'compilation' and l.status = 'processed') as compilation_completed,
           count(*) filter (where l.pipeline = 'compilation' and l.status = 'failed_terminal') as compilation_failed,
           count(*) filter (where l.pipeline = 'extraction') as extraction_total,
           count(*) filter (where l.pipeline = 'extraction' and l.status = 'processed') as extraction_completed,
           count(*) filter (where l.pipeline = 'extraction' and l.status = 'failed_terminal') as extraction_failed,
           count(*) filter (where l.pipeline = 'deploy') as deploy_total,
           count(*) filter (where l.pipeline = 'deploy' and l.status = 'processed') as deploy_completed,
           count(*) filter (where l.pipeline = 'deploy' and l.status = 'failed_terminal') as deploy_failed
    from content_items i
    join content_item_pipeline_state l on l.content_item_id = i.id and l.run_id = s.run_id
    where i.subdomain = s.subdomain
) n
where s.run_id is not null;

comment on view expected_counters is 'The counters that a site should have, counted from the ledger rows of its current run.';
