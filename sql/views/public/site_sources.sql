-- needs: 0018
create view site_sources as
select s.subdomain, s.name, s.state, s.country, s.kind, s.scraper, s.start_year, s.pages,
       -- By pattern, because `extra` may be invalid JSON and a cast would raise. Omits passwords and query strings.
       regexp_replace(
           coalesce(substring(s.extra::text from '"(?:url|site|portal|api)"\s*:\s*"(https?://[^"\\?#]*)'),
                    substring(s.extra::text from '"pages"\s*:\s*\[?\s*"(https?://[^"\\?#]*)')),
           '^(https?://)[^/]*@', '\1') as address,
       substring(s.extra::text from '"path"\s*:\s*"([^"\\]*)"') as folder
from sites s;

comment on view site_sources is 'One row per site: its description and the source of its documents.';
comment on column site_sources.address is
    'The first URL in the site''s extra, without user, password and query, which may be secret.';
comment on column site_sources.folder is 'The folder from which its documents are taken, if its source is a folder.';
comment on column site_sources.pages is 'Pages in its archive when last published.';
