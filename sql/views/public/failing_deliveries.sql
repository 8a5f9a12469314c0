-- needs: 0025
create view failing_deliveries as
select 'deliver' as step, s.name as saved_search, null::varchar as subdomain,
       case t.channel when 'mail' then format('mail to %s***@%s', left(t.address, 1), split_part(t.address, '@', 2))
                      when 'webhook' then format('webhook to %s/…', substring(t.address from '^https?://[^/?#]*'))
                      else 'feed' end as destination,
       d.id as delivery_id, null::bigint as publication_id, d.matches, d.status, d.attempt_count, d.error_code,
       d.error_message, d.last_attempt_at
from saved_search_deliveries d
join saved_search_destinations t on t.id = d.destination_id
join saved_searches s on s.id = t.saved_search_id
where d.status in ('failed_retryable', 'failed_terminal')
union all
select 'match', null, p.subdomain, null, null, m.publication_id, null, m.status, m.attempt_count, m.error_code,
       m.error_message, m.last_attempt_at
from publication_matchings m
join publications p on p.id = m.publication_id
where m.status in ('failed_retryable', 'failed_terminal')
union all
select 'query', s.name, null, null, null, null, null, 'failed_terminal', 1, 'SavedQueryInvalid', s.query_error,
       s.query_error_at
from saved_searches s
where s.query_error is not null;

comment on view failing_deliveries is
    'What failed for saved searches (`clerk alert`), permanently or to be retried, and why.';
comment on column failing_deliveries.step is
    'match: the new pages of a publication could not be matched; query: this query could not; deliver: matches could not be sent.';
comment on column failing_deliveries.destination is 'Mail addresses and webhook URLs are abbreviated.';
