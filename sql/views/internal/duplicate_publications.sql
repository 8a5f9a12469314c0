-- needs: 0018
create view duplicate_publications as
select newest.subdomain, newest.run_id, newest.id as publication_id, d.name as deployer, newest.content_hash,
       s.updated_at as site_updated_at
from sites s
cross join lateral (
    select p.* from publications p where p.subdomain = s.subdomain order by p.id desc limit 1
) newest
join publication_steps d on d.publication_id = newest.id and d.step = 'deploy'
cross join lateral (
    select p.content_hash
    from publications p
    join publication_steps b on b.publication_id = p.id and b.step = 'deploy' and b.name = d.name
    where p.subdomain = newest.subdomain and p.id < newest.id
    order by p.id desc
    limit 1
) before
where before.content_hash = newest.content_hash and not newest.lost_copy;

comment on view duplicate_publications is
    'Sites whose newest publication repeated the content that a deployer already had (invariant I5), although no copy had been lost.';
