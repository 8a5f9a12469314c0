-- needs: 0017
-- The three hours are longer than what a reconciler waits before it touches a site, so that it sees what it waited for.
create view counter_mismatches as
select s.subdomain, s.run_id, n.stage,
       format('the site counts %s/%s/%s (total, completed, failed), the ledger %s/%s/%s',
              n.total, n.completed, n.failed, n.ledger_total, n.ledger_completed, n.ledger_failed) as problem,
       (n.total, n.completed, n.failed) is distinct from (n.ledger_total, n.ledger_completed, n.ledger_failed) as differs,
       r.ended_at is null
           or coalesce(s.updated_at > clerk_now() - interval '3 hours', true)
           or (s.fetch_total, s.fetch_completed, s.fetch_failed, s.ocr_total, s.ocr_completed, s.ocr_failed,
               s.compilation_total, s.compilation_completed, s.compilation_failed,
               s.extraction_total, s.extraction_completed, s.extraction_failed,
               s.deploy_total, s.deploy_completed, s.deploy_failed)
              is distinct from
              (r.fetch_total, r.fetch_completed, r.fetch_failed, r.ocr_total, r.ocr_completed, r.ocr_failed,
               r.compilation_total, r.compilation_completed, r.compilation_failed,
               r.extraction_total, r.extraction_completed, r.extraction_failed,
               r.deploy_total, r.deploy_completed, r.deploy_failed) as in_motion
from sites s
left join pipeline_runs r on r.run_id = s.run_id
join expected_counters c on c.subdomain = s.subdomain
cross join lateral (values
    ('fetch', s.fetch_total, s.fetch_completed, s.fetch_failed, c.fetch_total, c.fetch_completed, c.fetch_failed),
    ('ocr', s.ocr_total, s.ocr_completed, s.ocr_failed, c.ocr_total, c.ocr_completed, c.ocr_failed),
    ('compilation', s.compilation_total, s.compilation_completed, s.compilation_failed,
     c.compilation_total, c.compilation_completed, c.compilation_failed),
    ('extraction', s.extraction_total, s.extraction_completed, s.extraction_failed,
     c.extraction_total, c.extraction_completed, c.extraction_failed),
    ('deploy', s.deploy_total, s.deploy_completed, s.deploy_failed, c.deploy_total, c.deploy_completed, c.deploy_failed)
) as n (stage, total, completed, failed, ledger_total, ledger_completed, ledger_failed)
where (n.total, n.completed, n.failed) is distinct from (n.ledger_total, n.ledger_completed, n.ledger_failed)
   or n.completed + n.failed > n.total
   or n.completed + n.failed < n.total
      and coalesce(clerk_phase(s.current_stage), 5) > clerk_phase(n.stage);

comment on view counter_mismatches is 'Sites and stages whose counters differ from the ledger (invariant I2). Counts the ledger of every site it is asked for.';
comment on column counter_mismatches.differs is
    'Otherwise counters and ledger agree, on something that cannot be: counting again does not help.';
comment on column counter_mismatches.in_motion is
    'The run is going, the site changed within three hours, or its counters are not those that its run ended with. Asked for only these, the ledger of sites at rest is not read.';
