-- needs: 0024
create view skipped_documents as
select e.subdomain, e.name, e.source_url, e.reason_code, e.reason, e.skipped_since, e.run_id,
       case when d.ignored then 'ignored' when d.date is not null then 'dated' else 'open' end as state,
       d.date, d.meeting, d.kind, d.set_by, d.set_at
from skipped_entries e
left join document_details d on d.subdomain = e.subdomain and d.source_key = e.source_key;

comment on view skipped_documents is
    'One row per entry of a source that did not become a document, with the reason. Filter by subdomain or state.';
comment on column skipped_documents.name is 'Path of the file in its folder, or its address; what `clerk site date` takes.';
comment on column skipped_documents.run_id is 'The last run that skipped it.';
comment on column skipped_documents.state is
    'open: an operator has to act; dated: an operator gave a date, and the next run reads the document; ignored by an operator.';
comment on column skipped_documents.date is 'As an operator gave it, like meeting and kind; set_by and set_at say who and when.';
