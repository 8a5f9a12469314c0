-- needs: 0018
-- Three hours are more than reconciliation's threshold, so that the view still has the sites that it waited for.
create view counter_mismatches as
select 'I2' as invariant, s.subdomain, s.run_id, n.stage,
       format('the site counts %s/%s/%s (total, completed, failed), the ledger %s/%s/%s',
              n.total, n.completed, n.failed, n.ledger_total, n.ledger_completed, n.ledger_failed) as problem,
       (n.total, n.completed, n.failed) is distinct from (n.ledger_total, n.ledger_completed, n.ledger_failed) as differs,
       r.ended_at is null or coalesce(s.updated_at > clerk_now() - interval '3 hours', true)
           or r.counters is distinct from clerk_counters(s) as recently_changed
from sites s
join pipeline_runs r on r.run_id = s.run_id
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
      and coalesce(clerk_phase(s.current_stage), 5) > clerk_phase(n.stage)
union all
select 'I3', s.subdomain, s.run_id, s.current_stage,
       format('the coordinator is claimed although %s units have not ended', clerk_units_left(s, clerk_phase(s.current_stage))),
       true, true
from pipeline_runs r
join sites s on s.subdomain = r.subdomain and s.run_id = r.run_id
where r.ended_at is null and s.coordinator_enqueued and clerk_units_left(s, clerk_phase(s.current_stage)) > 0;

comment on view counter_mismatches is
    'Sites and stages whose counters differ from the ledger (invariant I2), or whose coordinator is claimed too early (I3). Counts the ledger of every site that is not filtered out.';
comment on column counter_mismatches.differs is
    'False: counters and ledger agree on an impossible state, such as more units ended than there are. Counting again does not help.';
comment on column counter_mismatches.recently_changed is
    'The run is active, the site changed within three hours, or its counters are not those with which its run ended. A filter on this avoids reading the ledger of idle sites.';
