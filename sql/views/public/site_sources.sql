-- needs: 0017
create view site_sources as
select s.subdomain, s.name, s.state, s.country, s.kind, s.scraper, s.start_year, s.pages,
       -- By pattern, since `extra` may be anything and a cast would raise. Passwords and query strings stay behind.
       regexp_replace(
           coalesce(substring(s.extra::text from '"(?:url|site|portal|api)"\s*:\s*"(https?://[^"\\?#]*)'),
                    substring(s.extra::text from '"pages"\s*:\s*\[?\s*"(https?://[^"\\?#]*)')),
           '^(https?://)[^/]*@', '\1') as address,
       substring(s.extra::text from '"path"\s*:\s*"([^"\\]*)"') as folder
from sites s;

comment on view site_sources is 'A row per site: who it is, and where its documents come from.';
comment on column site_sources.address is
    'The first web address in the site''s extra, without user, password and query, which may be secrets.';
comment on column site_sources.folder is 'The folder that its documents are taken from, if it is one.';
comment on column site_sources.pages is 'Pages in its archive, as last published.';
