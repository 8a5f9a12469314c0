-- Schema of the database of all sites: that of meetings.db, plus the site. Ids are unique per site only.
create table minutes (
    subdomain text not null,
    municipality text not null,
    id text not null,
    meeting text not null,
    date text not null,
    page integer not null,
    text text not null,
    page_image text,
    entities_json text,
    votes_json text,
    primary key (subdomain, id)
);
create index idx_minutes_date on minutes (date);
create index idx_minutes_meeting on minutes (meeting);
create virtual table minutes_fts using fts5 (text, tokenize='unicode61 remove_diacritics 2', content=[minutes]);
create trigger minutes_ai after insert on minutes begin
    insert into minutes_fts (rowid, text) values (new.rowid, new.text);
end;
create trigger minutes_ad after delete on minutes begin
    insert into minutes_fts (minutes_fts, rowid, text) values ('delete', old.rowid, old.text);
end;
create trigger minutes_au after update of text on minutes begin
    insert into minutes_fts (minutes_fts, rowid, text) values ('delete', old.rowid, old.text);
    insert into minutes_fts (rowid, text) values (new.rowid, new.text);
end;

create table agendas (
    subdomain text not null,
    municipality text not null,
    id text not null,
    meeting text not null,
    date text not null,
    page integer not null,
    text text not null,
    page_image text,
    entities_json text,
    votes_json text,
    primary key (subdomain, id)
);
create index idx_agendas_date on agendas (date);
create index idx_agendas_meeting on agendas (meeting);
create virtual table agendas_fts using fts5 (text, tokenize='unicode61 remove_diacritics 2', content=[agendas]);
create trigger agendas_ai after insert on agendas begin
    insert into agendas_fts (rowid, text) values (new.rowid, new.text);
end;
create trigger agendas_ad after delete on agendas begin
    insert into agendas_fts (agendas_fts, rowid, text) values ('delete', old.rowid, old.text);
end;
create trigger agendas_au after update of text on agendas begin
    insert into agendas_fts (agendas_fts, rowid, text) values ('delete', old.rowid, old.text);
    insert into agendas_fts (rowid, text) values (new.rowid, new.text);
end;

create table other_documents (
    subdomain text not null,
    municipality text not null,
    id text not null,
    kind text not null,
    meeting text not null,
    date text not null,
    page integer not null,
    text text not null,
    page_image text,
    entities_json text,
    votes_json text,
    primary key (subdomain, id)
);
create index idx_other_documents_date on other_documents (date);
create index idx_other_documents_meeting on other_documents (meeting);
create index idx_other_documents_kind on other_documents (kind);
create virtual table other_documents_fts using fts5 (text, tokenize='unicode61 remove_diacritics 2', content=[other_documents]);
create trigger other_documents_ai after insert on other_documents begin
    insert into other_documents_fts (rowid, text) values (new.rowid, new.text);
end;
create trigger other_documents_ad after delete on other_documents begin
    insert into other_documents_fts (other_documents_fts, rowid, text) values ('delete', old.rowid, old.text);
end;
create trigger other_documents_au after update of text on other_documents begin
    insert into other_documents_fts (other_documents_fts, rowid, text) values ('delete', old.rowid, old.text);
    insert into other_documents_fts (rowid, text) values (new.rowid, new.text);
end;
