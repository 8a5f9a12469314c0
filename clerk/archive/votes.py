"""Reading votes and people from archives, for `clerk votes`, the dashboard and `clerk serve`."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import asdict, dataclass, field
from typing import Any

from clerk.archive.pages import TABLES
from clerk.archive.vote_tables import PEOPLE_COLUMNS, VOTE_COLUMNS, person_id

_VOTES = f"select {', '.join(VOTE_COLUMNS)} from votes"  # noqa: S608 (our own names)
_PEOPLE = f"select {', '.join(PEOPLE_COLUMNS)} from people"  # noqa: S608 (our own names)
_ORDER = " order by date desc, meeting, page, number"
_ROLLS = (
    "select vote_id, person_id, name, vote from vote_rolls where vote_id in (select value from json_each(?))"
    " order by vote_id, position"
)
_OF_PERSON = (
    " where (motion_by_id in (select value from json_each(:ids))"
    " or seconded_by_id in (select value from json_each(:ids))"
    " or id in (select vote_id from vote_rolls where person_id in (select value from json_each(:ids))))"
)
_OUTCOME = """
case when contradictory then 'contradictory' when result <> '' then result
     when ayes = nays and ayes > 0 then 'tied' else 'unknown' end
"""
_FACETS = {"result": _OUTCOME, "body": "meeting", "year": "substr(date, 1, 4)"}
OUTCOMES = ("passed", "failed", "tabled", "tied", "contradictory", "unknown")
_PAGE_IMAGE = "select page_image from PAGES where id = ?"
_BATCH = 500
TALLY = ("ayes", "nays", "abstain", "absent")


@dataclass(frozen=True)
class Ballot:
    person_id: str
    name: str
    vote: str


@dataclass(frozen=True)
class Vote:
    id: str
    kind: str
    page_id: str
    number: int
    meeting: str
    date: str
    page: int
    motion: str | None
    motion_by: str | None
    motion_by_id: str | None
    seconded_by: str | None
    seconded_by_id: str | None
    result: str
    contradictory: bool
    ayes: int | None
    nays: int | None
    abstain: int | None
    absent: int | None
    raw_text: str
    roll: list[Ballot] = field(default_factory=list)

    @property
    def outcome(self) -> str:
        """One of OUTCOMES. A tie has no result of its own: rules differ in what it means."""
        if self.contradictory:
            return "contradictory"
        is_tied = bool(self.ayes) and self.ayes == self.nays
        return self.result or ("tied" if is_tied else "unknown")

    @property
    def tally(self) -> dict[str, int]:
        """The numbers that are known."""
        return {key: number for key in TALLY if (number := getattr(self, key)) is not None}

    def named(self, vote: str) -> list[str]:
        return [ballot.name for ballot in self.roll if ballot.vote == vote]

    def part_of(self, person: str) -> list[str]:
        """What a person did in this vote: moved, seconded, and the person's vote."""
        did = [word for word, key in (("moved", self.motion_by_id), ("seconded", self.seconded_by_id)) if key == person]
        return did + [ballot.vote for ballot in self.roll if ballot.person_id == person]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Person:
    id: str
    name: str
    role: str | None
    pages: int
    votes: int
    motions: int
    seconds: int
    first_date: str
    last_date: str


def has_tables(connection: sqlite3.Connection) -> bool:
    """Whether the archive has the tables; one that an earlier version compiled has not."""
    found = connection.execute(
        "select count(*) from sqlite_master where type = 'table' and name in ('votes', 'vote_rolls', 'people')"
    )
    return bool(found.fetchone()[0] == 3)


def find_people(connection: sqlite3.Connection, name: str = "", limit: int = 100, offset: int = 0) -> list[Person]:
    """Return the people whose name contains every word, those with most votes first."""
    words = [word for word in person_id(name).split("-") if word] if name.strip() else []
    where = " and ".join(["id like ? escape '\\'"] * len(words))
    query = (
        _PEOPLE
        + (f" where {where}" if where else "")
        + " order by votes + motions + seconds desc, pages desc, id limit ? offset ?"
    )
    patterns = [f"%{word.replace('_', chr(92) + '_')}%" for word in words]
    return [Person(*row) for row in connection.execute(query, [*patterns, limit, offset])]


def read_person(connection: sqlite3.Connection, key: str) -> Person | None:
    row = connection.execute(_PEOPLE + " where id = ?", [key]).fetchone()
    return Person(*row) if row is not None else None


def read_vote(connection: sqlite3.Connection, key: str) -> Vote | None:
    rows = connection.execute(_VOTES + " where id = ?", [key]).fetchall()
    return _with_rolls(connection, rows)[0] if rows else None


@dataclass(frozen=True)
class VoteFilter:
    """Which votes. Empty: all."""

    people: list[str] | None = None
    """Ids of persons of whom one took part."""
    since: str = ""
    result: str = ""
    """One of OUTCOMES."""
    body: str = ""
    year: str = ""
    day: str = ""

    def where(self) -> tuple[str, dict[str, Any]]:
        conditions = [_OF_PERSON if self.people is not None else " where true", "date >= :since"]
        chosen = {name: getattr(self, name) for name in _FACETS if getattr(self, name)}
        conditions += [f"{_FACETS[name]} = :{name}" for name in chosen]
        if self.day:
            conditions.append("date = :day")
        values = {"ids": json.dumps(self.people or []), "since": self.since, "day": self.day}
        return " and ".join(conditions), values | chosen


_ALL = VoteFilter()


def read_votes(
    connection: sqlite3.Connection, chosen: VoteFilter = _ALL, limit: int = -1, offset: int = 0
) -> list[Vote]:
    """Return votes, the newest first."""
    where, values = chosen.where()
    values |= {"limit": limit, "offset": offset}
    rows = connection.execute(f"{_VOTES}{where}{_ORDER} limit :limit offset :offset", values)
    return _with_rolls(connection, rows.fetchall())


def count_by_facet(connection: sqlite3.Connection, chosen: VoteFilter = _ALL) -> dict[str, dict[str, int]]:
    """Numbers of votes by result, body and year, the most frequent first; years, the newest first."""
    where, values = chosen.where()
    order = {"result": "2 desc, 1", "body": "2 desc, 1", "year": "1 desc"}
    counts = {}
    for name, value in _FACETS.items():
        query = f"select {value}, count(*) from votes{where} group by 1 order by {order[name]}"  # noqa: S608 (our own names)
        counts[name] = dict(connection.execute(query, values).fetchall())
    return counts


def read_meetings(connection: sqlite3.Connection, person: str, limit: int = -1) -> list[tuple[str, str, int]]:
    """Date, body and number of votes of each meeting in whose votes a person took part, the newest first."""
    where, values = VoteFilter([person]).where()
    query = f"select date, meeting, count(*) from votes{where} group by 1, 2 order by 1 desc, 2 limit :limit"  # noqa: S608 (our own names)
    return connection.execute(query, values | {"limit": limit}).fetchall()


def count_votes(connection: sqlite3.Connection, person: str) -> dict[str, int]:
    """Return how often a person voted aye, nay, abstain, absent."""
    rows = connection.execute("select vote, count(*) from vote_rolls where person_id = ? group by vote", [person])
    return {str(vote): int(number) for vote, number in rows}


def page_image(connection: sqlite3.Connection, vote: Vote) -> str | None:
    row = connection.execute(_PAGE_IMAGE.replace("PAGES", TABLES[vote.kind]), [vote.page_id]).fetchone()
    return row[0] if row is not None else None


def _with_rolls(connection: sqlite3.Connection, rows: list[Any]) -> list[Vote]:
    votes = {
        row[0]: Vote(**dict(zip(VOTE_COLUMNS, row, strict=True)) | {"contradictory": bool(row[13])}) for row in rows
    }
    keys = list(votes)
    for start in range(0, len(keys), _BATCH):
        for vote_id, *ballot in connection.execute(_ROLLS, [json.dumps(keys[start : start + _BATCH])]):
            votes[vote_id].roll.append(Ballot(*ballot))
    return list(votes.values())
