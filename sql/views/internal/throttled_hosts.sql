-- needs: 0018
create view throttled_hosts as
select s.subdomain, h.host, h.next_at, h.held_until, h.held_why
from fetch_hosts h
join sites s on strpos(coalesce(s.extra, ''), h.host) > 0
             or exists (select from content_items i
                        where i.subdomain = s.subdomain and i.superseded_at is null
                          and strpos(i.source_url, '//' || h.host || '/') > 0)
where h.held_until > clerk_now() or h.next_at > clerk_now() + interval '2 seconds';

comment on view throttled_hosts is 'Hosts of a site''s documents to which no request may start now: backed off, or at their rate limit.';
