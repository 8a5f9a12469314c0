-- needs: 0025
create view published_documents as
select p.subdomain, p.kind, p.meeting, p.date, p.pages, p.new_pages, p.first_published_at, p.changed_at
from published_pages p;

comment on view published_documents is 'One row per document that was ever published, and when its pages last changed. Filter by subdomain.';
comment on column published_documents.pages is 'Pages in the publication of changed_at.';
comment on column published_documents.new_pages is 'Those of them that were new or changed in it.';
