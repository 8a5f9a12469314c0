-- needs: 0017
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
    'A row per version of an archive that was published: when, how many pages, and whether it was taken back.';
comment on column site_publications.steps is 'Which deployers are done with it, and what each said, such as where it put it.';
comment on column site_publications.lost_copy is 'The same content went out once more, since the published copy was gone or damaged.';
