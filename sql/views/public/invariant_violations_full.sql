-- needs: 0018
create view invariant_violations_full as
select c.invariant, c.subdomain, c.run_id, c.stage, c.problem
from invariant_violations c
where c.invariant not in ('I2', 'I3', 'I5', 'I8')
union all
select m.invariant, m.subdomain, m.run_id, m.stage, m.problem
from counter_mismatches m
union all
select 'I5', p.subdomain, p.run_id, 'deploy', format('publication %s repeated the content that %s already had', p.publication_id, p.deployer)
from duplicate_publications p
union all
select 'I8', c.subdomain, null, c.stage, c.problem
from claim_mismatches c;

comment on view invariant_violations_full is
    'Like invariant_violations, over all rows. Reads the whole ledger: for nightly checks and after a restore.';
