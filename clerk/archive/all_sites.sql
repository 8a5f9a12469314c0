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

-- Votes and people, derived from votes_json and entities_json of the pages. `id` of a vote: the page's id and its number on it.
create table votes (
    subdomain text not null,
    municipality text not null,
    id text not null,
    kind text not null,
    page_id text not null,
    number integer not null,
    meeting text not null,
    date text not null,
    page integer not null,
    motion text,
    motion_by text,
    motion_by_id text,
    seconded_by text,
    seconded_by_id text,
    result text not null default '',
    contradictory integer not null default 0,
    ayes integer,
    nays integer,
    abstain integer,
    absent integer,
    raw_text text not null,
    primary key (subdomain, id)
);
create index idx_votes_date on votes (date);
create index idx_votes_page on votes (subdomain, page_id);
create index idx_votes_motion_by on votes (subdomain, motion_by_id);
create index idx_votes_seconded_by on votes (subdomain, seconded_by_id);
create index idx_votes_result on votes (result);

create table vote_rolls (
    subdomain text not null,
    municipality text not null,
    vote_id text not null,
    position integer not null,
    person_id text not null,
    name text not null,
    vote text not null,
    primary key (subdomain, vote_id, position)
);
create index idx_vote_rolls_person on vote_rolls (subdomain, person_id, vote);

create table people (
    subdomain text not null,
    municipality text not null,
    id text not null,
    name text not null,
    role text,
    pages integer not null,
    votes integer not null,
    motions integer not null,
    seconds integer not null,
    first_date text not null,
    last_date text not null,
    primary key (subdomain, id)
);
create index idx_people_name on people (name);
