-- needs: 0011
create view pipeline_conservation_full as
select c.invariant, c.subdomain, c.run_id, c.stage, c.problem
from pipeline_conservation c
where c.invariant not in ('I2', 'I5', 'I8')
union all
select 'I2', m.subdomain, m.run_id, m.stage, m.problem
from miscounted_sites m
union all
select 'I5', p.subdomain, p.run_id, 'deploy', format('publication %s gave %s the content that it had', p.publication_id, p.deployer)
from repeated_publications p
union all
select 'I8', c.subdomain, null, c.stage, c.problem
from wrong_claims c;

comment on view pipeline_conservation_full is
    'Like pipeline_conservation, over everything there is: reads the whole ledger, so it is for nights and after a restore.';
