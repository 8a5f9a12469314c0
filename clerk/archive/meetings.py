"""Meetings of an archive: all documents, votes and people of one body on one day."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from clerk.archive import votes as vote_reader
from clerk.archive.pages import existing_tables, kind_of_row
from clerk.archive.query import ArchiveForm
from clerk.archive.search_tables import detect_form
from clerk.archive.vote_tables import person_id
from clerk.archive.votes import Vote, VoteFilter
from clerk.documents.kinds import KINDS

MAX_PAGES = 100
"""Texts of one document that are read; a packet can have thousands of pages."""
_DOCUMENTS = "select date, meeting, kind from document_sources"
_DOCUMENTS_OF_PAGES = "select distinct p.date, p.meeting, KIND as kind from PAGES p"
_MEETINGS = """
select date, meeting, group_concat(distinct kind)
from (DOCUMENTS)
where (:body = '' or meeting = :body) and (:year = '' or substr(date, 1, 4) = :year)
group by 1, 2 order by 1 desc, 2 limit :limit offset :offset
"""
_COUNTS = """
select COLUMN, count(distinct date || ' ' || meeting)
from (DOCUMENTS)
where ? = '' or FILTERED = ?1
group by 1 order by ORDER_BY
"""
_YEAR = "substr(date, 1, 4)"
_PAGES = """
select p.kind, p.id, p.page, case when p.number <= :limit then p.text end, p.page_image, p.entities_json,
       count(*) over (partition by p.kind)
from (select KIND as kind, p.id, p.page, p.text, p.page_image, p.entities_json,
             row_number() over (partition by KIND order by p.page, p.id) as number
      from PAGES p where p.date = :date and p.meeting = :meeting) p
"""


@dataclass(frozen=True)
class MeetingRow:
    date: str
    meeting: str
    kinds: list[str]


@dataclass(frozen=True)
class PageText:
    id: str
    page: int
    text: str
    page_image: str | None


@dataclass(frozen=True)
class MeetingDocument:
    kind: str
    source_url: str | None
    """Only an address on the web is published."""
    added_at: str | None
    pages: list[PageText]
    """The first MAX_PAGES."""
    page_count: int


@dataclass(frozen=True)
class Meeting:
    date: str
    meeting: str
    documents: list[MeetingDocument]
    """Minutes first."""
    votes: list[Vote]
    people: list[tuple[str, str]]
    """Id and name of each person that the pages name."""


def list_meetings(
    connection: sqlite3.Connection, body: str = "", year: str = "", limit: int = -1, offset: int = 0
) -> list[MeetingRow]:
    """The meetings of an archive, the newest first."""
    values = {"body": body, "year": year, "limit": limit, "offset": offset}
    rows = connection.execute(_MEETINGS.replace("DOCUMENTS", _documents(connection)), values)
    return [MeetingRow(day, meeting, _in_order(kinds.split(","))) for day, meeting, kinds in rows]


def count_meetings(connection: sqlite3.Connection, body: str = "", year: str = "") -> dict[str, dict[str, int]]:
    """Numbers of meetings by body, the most frequent first, of a year; and by year, the newest first, of a body."""
    query = _COUNTS.replace("DOCUMENTS", _documents(connection))
    by_body = query.replace("COLUMN", "meeting").replace("FILTERED", _YEAR).replace("ORDER_BY", "2 desc, 1")
    by_year = query.replace("COLUMN", _YEAR).replace("FILTERED", "meeting").replace("ORDER_BY", "1 desc")
    return {
        name: {str(value): int(number) for value, number in connection.execute(counted, [chosen])}
        for name, counted, chosen in (("body", by_body, year), ("year", by_year, body))
    }


def read_meeting(connection: sqlite3.Connection, day: str, meeting: str) -> Meeting | None:
    documents, named = _read_documents(connection, day, meeting)
    if not documents:
        return None
    votes: list[Vote] = []
    people: dict[str, str] = {}
    if vote_reader.has_tables(connection):
        votes = vote_reader.read_votes(connection, VoteFilter(body=meeting, day=day))
        people = _read_people(connection, [*named, *_in_votes(votes)])
    return Meeting(day, meeting, documents, sorted(votes, key=_place), sorted(people.items(), key=lambda item: item[1]))


def _place(vote: Vote) -> tuple[int, int, int]:
    return KINDS.index(vote.kind), vote.page, vote.number


def _documents(connection: sqlite3.Connection) -> str:
    """SQL: the documents. An archive of an older version has them only as pages."""
    if detect_form(connection) is ArchiveForm.TERMS:
        return _DOCUMENTS
    return " union all ".join(
        _DOCUMENTS_OF_PAGES.replace("PAGES", table).replace("KIND", kind_of_row(table, "p"))
        for table in existing_tables(connection)
    )


def _read_documents(connection: sqlite3.Connection, day: str, meeting: str) -> tuple[list[MeetingDocument], list[str]]:
    """The documents, and the ids of the people that their pages name."""
    pages: dict[str, list[PageText]] = {}
    counts: dict[str, int] = {}
    named: list[str] = []
    for table in existing_tables(connection):
        query = _PAGES.replace("PAGES", table).replace("KIND", kind_of_row(table, "p"))
        for row in connection.execute(query, {"date": day, "meeting": meeting, "limit": MAX_PAGES}):
            kind, page_id, number, text, image, entities, count = row
            counts[kind] = count
            named += _persons(entities)
            if text is not None:
                pages.setdefault(kind, []).append(PageText(page_id, number, text, image))
    sources = _read_sources(connection, day, meeting)
    documents = []
    for kind in _in_order(pages):
        source_url, added_at = sources.get(kind, (None, None))
        in_order = sorted(pages[kind], key=lambda page: page.page)
        documents.append(MeetingDocument(kind, source_url, added_at, in_order, counts[kind]))
    return documents, named


def _read_sources(connection: sqlite3.Connection, day: str, meeting: str) -> dict[str, tuple[str | None, str | None]]:
    if detect_form(connection) is not ArchiveForm.TERMS:
        return {}
    query = "select kind, source_url, added_at from document_sources where date = ? and meeting = ?"
    return {kind: (source_url, added_at) for kind, source_url, added_at in connection.execute(query, [day, meeting])}


def _persons(entities_json: str | None) -> list[str]:
    """Ids of the people in the findings of a page. A plugin may have written anything there."""
    try:
        found: Any = json.loads(entities_json or "{}")
        return [person_id(person["text"]) for person in found.get("persons", [])]
    except (ValueError, TypeError, KeyError, AttributeError):
        return []


def _in_votes(votes: Iterable[Vote]) -> list[str]:
    named = [key for vote in votes for key in (vote.motion_by_id, vote.seconded_by_id) if key]
    return named + [ballot.person_id for vote in votes for ballot in vote.roll]


def _read_people(connection: sqlite3.Connection, ids: Iterable[str]) -> dict[str, str]:
    query = "select id, name from people where id in (select value from json_each(?))"
    return {str(key): str(name) for key, name in connection.execute(query, [json.dumps(sorted(set(ids)))])}


def _in_order(kinds: Iterable[str]) -> list[str]:
    return sorted(kinds, key=KINDS.index)
