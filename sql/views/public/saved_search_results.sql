-- needs: 0025
create view saved_search_results as
select s.name as saved_search, m.id, m.subdomain, m.kind, m.meeting, m.date, m.page, m.page_id, m.is_new_document,
       m.snippet, m.content_item_id, m.source_url, m.publication_id, m.matched_at
from saved_search_matches m
join saved_searches s on s.id = m.saved_search_id;

comment on view saved_search_results is 'One row per saved search (`clerk alert`) and matching page. Filter by saved_search.';
comment on column saved_search_results.page_id is 'The id in meetings.db.';
comment on column saved_search_results.is_new_document is 'False: other pages of the document had been published before.';
