-- needs: 0029
create view edited_extractors as
select c.extractor, c.version, max(c.plugin) as plugin, count(*)::integer as codes, min(c.first_used_at) as first_used_at,
       max(c.first_used_at) as edited_at
from extractor_code c
where c.version = (
    select latest.version from extractor_code latest
    where latest.extractor = c.extractor
    order by latest.last_used_at desc, latest.first_used_at desc limit 1
)
group by c.extractor, c.version
having count(*) > 1;

comment on view edited_extractors is
    'Extractors whose version in use had different code, over time or on different hosts: documents keep findings of each until it gets a new version.';
comment on column edited_extractors.codes is 'Number of different codes of this version.';
comment on column edited_extractors.edited_at is 'When a worker first used the newest of them.';
