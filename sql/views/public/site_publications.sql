-- needs: 0018
create view site_publications as
select p.subdomain, p.id, p.run_id, p.content_hash, p.pages, p.begun_at, p.deployed_at, p.announced_at, p.withdrawn_at,
       p.withdrawn_by, p.lost_copy, s.steps
from publications p
left join lateral (
    select string_agg(concat_ws(': ', d.name, nullif(d.result, '')), '; ' order by d.done_at, d.name) as steps
    from publication_steps d
    where d.publication_id = p.id and d.step = 'deploy'
) s on true;

comment on view site_publications is
    'One row per published version of an archive: when, how many pages, whether it was rolled back.';
comment on column site_publications.steps is 'Deployers that have finished, each with its result, such as the location.';
comment on column site_publications.lost_copy is 'The same content was published again because the published copy was missing or damaged.';
