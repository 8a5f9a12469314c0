"""The tables `votes`, `vote_rolls` and `people` of meetings.db, derived from the findings on its pages.

A surname is the person whose full name ends with it, if exactly one such name is in the document, else in the documents
of the same body. If there are several, or none, the surname stays a person of its own.
"""

from __future__ import annotations

import json
import logging
import re
import sqlite3
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from clerk.archive.pages import existing_tables, kind_of_row

logger = logging.getLogger(__name__)

_PAGES = """
select KIND, p.id, p.meeting, p.date, p.page, p.entities_json, p.votes_json
from SCHEMA.PAGES p
order by p.date, p.meeting, p.page, p.id
"""
VOTE_COLUMNS = (
    "id", "kind", "page_id", "number", "meeting", "date", "page", "motion", "motion_by", "motion_by_id", "seconded_by",
    "seconded_by_id", "result", "contradictory", "ayes", "nays", "abstain", "absent", "raw_text",
)  # fmt: skip
ROLL_COLUMNS = ("vote_id", "position", "person_id", "name", "vote")
PEOPLE_COLUMNS = ("id", "name", "role", "pages", "votes", "motions", "seconds", "first_date", "last_date")
COLUMNS = {"votes": VOTE_COLUMNS, "vote_rolls": ROLL_COLUMNS, "people": PEOPLE_COLUMNS}
_KEY_LENGTH = {"votes": 1, "vote_rolls": 2, "people": 1}
Row = tuple[Any, ...]


def update(connection: sqlite3.Connection) -> None:
    """Make the tables hold what the pages say, writing only differences."""
    for table, rows in derive(connection).items():
        columns, size = COLUMNS[table], _KEY_LENGTH[table]
        names = ", ".join(columns)
        wanted = {row[:size]: row for row in rows}
        existing = {row[:size]: row for row in connection.execute(f"select {names} from {table}")}  # noqa: S608 (our own names)
        obsolete = [key for key, row in existing.items() if wanted.get(key) != row]
        where = " and ".join(f"{column} = ?" for column in columns[:size])
        connection.executemany(f"delete from {table} where {where}", obsolete)  # noqa: S608 (our own names)
        marks = ", ".join("?" * len(columns))
        new = [row for key, row in wanted.items() if existing.get(key) != row]
        connection.executemany(f"insert into {table} ({names}) values ({marks})", new)  # noqa: S608 (our own names)


def derive(connection: sqlite3.Connection, schema: str = "main") -> dict[str, list[Row]]:
    """Return the rows of each table, from the pages in a schema of the connection."""
    tables = _Derivation()
    for table in existing_tables(connection, schema):
        query = _PAGES.replace("SCHEMA", schema).replace("PAGES", table).replace("KIND", kind_of_row(table, "p"))
        for row in connection.execute(query):
            tables.add_page(*row)
    if tables.invalid:
        logger.warning(
            "the findings on %s pages are not valid JSON, so their votes are not in the tables", tables.invalid
        )
    return tables.rows()


def person_id(name: str) -> str:
    """Return the id of a name: lower case, without accents, words joined by hyphens."""
    decomposed = unicodedata.normalize("NFKD", name.casefold())
    plain = "".join(character for character in decomposed if not unicodedata.combining(character))
    return re.sub(r"[^\w]+", "-", plain.replace("'", "").replace("\u2019", "")).strip("-_") or "unnamed"


@dataclass
class _Person:
    names: Counter[str] = field(default_factory=Counter)
    roles: Counter[str] = field(default_factory=Counter)
    pages: set[tuple[str, str]] = field(default_factory=set)
    votes: int = 0
    motions: int = 0
    seconds: int = 0
    first_date: str = "9999"
    last_date: str = ""


@dataclass(frozen=True)
class _Page:
    kind: str
    id: str
    meeting: str
    date: str
    page: int
    persons: tuple[tuple[str, str | None], ...]
    votes: tuple[dict[str, Any], ...]

    @property
    def document(self) -> tuple[str, str]:
        return self.meeting, self.date

    @property
    def body(self) -> str:
        """The meeting without the number of a second meeting on a day."""
        return re.sub(r" \(\d+\)$", "", self.meeting)


class _Derivation:
    def __init__(self) -> None:
        self.pages: list[_Page] = []
        self.invalid = 0
        # Ending of a full name → the full names, per document and per body.
        self._in_document: defaultdict[tuple[str, str], defaultdict[str, set[str]]] = defaultdict(
            lambda: defaultdict(set)
        )
        self._in_body: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))

    def add_page(
        self, kind: str, key: str, meeting: str, date: str, page: int, entities_json: str | None, votes_json: str | None
    ) -> None:
        try:
            entities = json.loads(entities_json) if entities_json else {}
            votes = json.loads(votes_json) if votes_json else {}
            persons = tuple((str(entry["text"]), entry.get("role")) for entry in entities.get("persons", ()))
            found = tuple(votes.get("votes", ()))
        except (ValueError, TypeError, KeyError, AttributeError):
            self.invalid += 1
            return
        if not persons and not found:
            return
        row = _Page(kind, key, meeting, date, page, persons, found)
        self.pages.append(row)
        names = {name for name, _ in persons} | {name for vote in found for name, _ in _people_of(vote)}
        for name in names:
            words = person_id(name).split("-")
            for start in range(1, len(words)):
                ending = "-".join(words[start:])
                self._in_document[row.document][ending].add(name)
                self._in_body[row.body][ending].add(name)

    def rows(self) -> dict[str, list[Row]]:
        people: defaultdict[str, _Person] = defaultdict(_Person)
        votes: list[Row] = []
        rolls: list[Row] = []
        for page in self.pages:
            for name, role in page.persons:
                self._mention(people, page, name, role)
            for number, vote in enumerate(page.votes, 1):
                vote_id = f"{page.id}-{number}"
                votes.append(self._vote_row(people, page, vote_id, number, vote))
                for position, ballot in enumerate(vote.get("individual_votes") or (), 1):
                    key = self._mention(people, page, ballot["name"])
                    people[key].votes += 1
                    rolls.append((vote_id, position, key, ballot["name"], ballot["vote"]))
        listed = [
            (
                key,
                _most_common(person.names),
                _most_common(person.roles) if person.roles else None,
                len(person.pages),
                person.votes,
                person.motions,
                person.seconds,
                person.first_date,
                person.last_date,
            )
            for key, person in sorted(people.items())
        ]
        # People first: votes refer to them.
        return {"people": listed, "votes": votes, "vote_rolls": rolls}

    def _vote_row(self, people: dict[str, _Person], page: _Page, key: str, number: int, vote: dict[str, Any]) -> Row:
        mover, seconder = vote.get("motion_by"), vote.get("seconded_by")
        mover_id = self._mention(people, page, mover) if mover else None
        seconder_id = self._mention(people, page, seconder) if seconder else None
        if mover_id:
            people[mover_id].motions += 1
        if seconder_id:
            people[seconder_id].seconds += 1
        tally = vote.get("tally") or {}
        return (
            key, page.kind, page.id, number, page.meeting, page.date, page.page,
            vote.get("motion"), mover, mover_id, seconder, seconder_id,
            vote.get("result") or "", int(bool(vote.get("contradictory"))),
            tally.get("ayes"), tally.get("nays"), tally.get("abstain"), tally.get("absent"), vote.get("raw_text") or "",
        )  # fmt: skip

    def _mention(self, people: dict[str, _Person], page: _Page, name: str, role: str | None = None) -> str:
        """Count a mention of a person, and return the person's id."""
        full = self._full_name(page, name)
        key = person_id(full)
        person = people[key]
        person.names[full] += 1
        if role:
            person.roles[role] += 1
        person.pages.add((page.kind, page.id))
        person.first_date = min(person.first_date, page.date)
        person.last_date = max(person.last_date, page.date)
        return key

    def _full_name(self, page: _Page, name: str) -> str:
        ending = person_id(name)
        for names in (self._in_document[page.document].get(ending), self._in_body[page.body].get(ending)):
            if names:
                keys = {person_id(full): full for full in sorted(names)}
                # "Smith" and "J. Smith" and "Jane Smith": several full names, so the surname stays as it is.
                return next(iter(keys.values())) if len(keys) == 1 else name
        return name


def _people_of(vote: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for key in ("motion_by", "seconded_by"):
        if vote.get(key):
            yield vote[key], key
    for ballot in vote.get("individual_votes") or ():
        yield ballot["name"], ballot["vote"]


def _most_common(names: Counter[str]) -> str:
    """Return the most frequent text; of several, the first in alphabetical order, so that builds are repeatable."""
    return min(names, key=lambda name: (-names[name], name))
