-- needs: 0025
create view saved_search_overview as
select s.id, s.name, s.query, s.sites, s.created_at, s.created_by, s.paused_at, s.paused_by, s.query_error,
       d.destinations, d.has_feed, m.matches, m.last_matched_at, coalesce(v.waiting, 0) as waiting,
       coalesce(v.failed, 0) as failed, v.last_delivered_at
from saved_searches s
cross join lateral (
    select array_agg(case t.channel
                         when 'mail' then format('mail to %s***@%s, %s', left(t.address, 1),
                                                 split_part(t.address, '@', 2), t.frequency)
                         when 'webhook' then format('webhook to %s/…', substring(t.address from '^https?://[^/?#]*'))
                         else 'feed' end order by t.id) as destinations,
           coalesce(bool_or(t.channel = 'feed'), false) as has_feed,
           array_agg(t.id) as ids
    from saved_search_destinations t
    where t.saved_search_id = s.id
) d
cross join lateral (
    select count(*) as matches, max(r.matched_at) as last_matched_at
    from saved_search_matches r
    where r.saved_search_id = s.id
) m
left join lateral (
    select count(*) filter (where l.status in ('pending', 'failed_retryable')) as waiting,
           count(*) filter (where l.status = 'failed_terminal') as failed,
           max(l.delivered_at) as last_delivered_at
    from saved_search_deliveries l
    where l.destination_id = any (d.ids)
) v on true;

comment on view saved_search_overview is
    'One row per saved search (`clerk alert`): its query, destinations, matches and deliveries.';
comment on column saved_search_overview.sites is 'Only these sites; NULL for all.';
comment on column saved_search_overview.destinations is 'Mail addresses and webhook URLs are abbreviated.';
comment on column saved_search_overview.paused_at is 'Since when matches are recorded but not delivered.';
comment on column saved_search_overview.query_error is 'Why the query could not be matched with the last publication.';
comment on column saved_search_overview.matches is 'Matching pages of the last year.';
comment on column saved_search_overview.waiting is 'Deliveries that are waiting or will be retried.';
comment on column saved_search_overview.failed is 'Deliveries that failed permanently.';
