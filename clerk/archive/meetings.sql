-- Schema of meetings.db. The full-text tables are external-content tables: they store no text. Datasette recognises them
-- by `content=[minutes]` in exactly this spelling.
create table minutes (
    id text primary key,
    meeting text not null,
    date text not null,
    page integer not null,
    text text not null,
    page_image text,
    entities_json text,
    votes_json text
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
    id text primary key,
    meeting text not null,
    date text not null,
    page integer not null,
    text text not null,
    page_image text,
    entities_json text,
    votes_json text
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

-- Packets, ordinances, resolutions, reports and notices, with their kind.
create table other_documents (
    id text primary key,
    kind text not null,
    meeting text not null,
    date text not null,
    page integer not null,
    text text not null,
    page_image text,
    entities_json text,
    votes_json text
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
    id text primary key,
    kind text not null,
    page_id text not null,
    number integer not null,
    meeting text not null,
    date text not null,
    page integer not null,
    motion text,
    motion_by text,
    motion_by_id text references people (id),
    seconded_by text,
    seconded_by_id text references people (id),
    result text not null default '',
    contradictory integer not null default 0,
    ayes integer,
    nays integer,
    abstain integer,
    absent integer,
    raw_text text not null
);
create index idx_votes_date on votes (date);
create index idx_votes_page on votes (page_id);
create index idx_votes_motion_by on votes (motion_by_id);
create index idx_votes_seconded_by on votes (seconded_by_id);
create index idx_votes_result on votes (result);

create table vote_rolls (
    vote_id text not null references votes (id),
    position integer not null,
    person_id text not null references people (id),
    name text not null,
    vote text not null,
    primary key (vote_id, position)
);
create index idx_vote_rolls_person on vote_rolls (person_id, vote);

create table people (
    id text primary key,
    name text not null,
    role text,
    pages integer not null,
    votes integer not null,
    motions integer not null,
    seconds integer not null,
    first_date text not null,
    last_date text not null
);
create index idx_people_name on people (name);
