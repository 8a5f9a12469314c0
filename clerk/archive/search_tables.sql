-- The search tables of meetings.db, and where its documents come from. Written by clerk/archive/search_tables.py.
--
-- minutes_search, agendas_search and other_documents_search hold the terms of each page (clerk/archive/terms.py) and no
-- text. FTS5 needs the indexed terms again to delete a row, and Python cannot add a tokenizer to FTS5. So plain triggers,
-- which any SQLite client can run, record each change with the text it replaced, and clerk updates the terms at the end
-- of a build.
create table document_sources (
    kind text not null,
    meeting text not null,
    date text not null,
    source_url text,
    added_at text,
    primary key (kind, meeting, date)
);
create table search_changes (  -- terms 1: the version of clerk.archive.terms
    page_table text not null,
    page_rowid integer not null,
    indexed_text text,
    primary key (page_table, page_rowid)
);

create virtual table minutes_search using fts5 (
    words, stems, content='', tokenize='unicode61 remove_diacritics 0'
);
create trigger minutes_search_ai after insert on minutes begin
    insert or ignore into search_changes values ('minutes', new.rowid, null);
end;
create trigger minutes_search_ad after delete on minutes begin
    insert or ignore into search_changes values ('minutes', old.rowid, old.text);
end;
create trigger minutes_search_au after update of text on minutes begin
    insert or ignore into search_changes values ('minutes', old.rowid, old.text);
end;

create virtual table agendas_search using fts5 (
    words, stems, content='', tokenize='unicode61 remove_diacritics 0'
);
create trigger agendas_search_ai after insert on agendas begin
    insert or ignore into search_changes values ('agendas', new.rowid, null);
end;
create trigger agendas_search_ad after delete on agendas begin
    insert or ignore into search_changes values ('agendas', old.rowid, old.text);
end;
create trigger agendas_search_au after update of text on agendas begin
    insert or ignore into search_changes values ('agendas', old.rowid, old.text);
end;

create virtual table other_documents_search using fts5 (
    words, stems, content='', tokenize='unicode61 remove_diacritics 0'
);
create trigger other_documents_search_ai after insert on other_documents begin
    insert or ignore into search_changes values ('other_documents', new.rowid, null);
end;
create trigger other_documents_search_ad after delete on other_documents begin
    insert or ignore into search_changes values ('other_documents', old.rowid, old.text);
end;
create trigger other_documents_search_au after update of text on other_documents begin
    insert or ignore into search_changes values ('other_documents', old.rowid, old.text);
end;
