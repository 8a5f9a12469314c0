"""Looks for words in archives: the best page of each first, newest first among these, then the second best of each.

FTS5's rank says how rare the words are in one archive, and nothing about another: a page of a town that never spoke of
bike lanes before would stand before all pages of the towns that did. So archives take turns.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterable
from contextlib import closing
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from clerk.archive.content_hash import open_readonly

HIGHLIGHT = ("\x02", "\x03")
"""Around a word that was found: characters that no page text shows, for the caller to replace."""

_STEPS_BETWEEN_LOOKS_AT_THE_CLOCK = 10_000
_QUERY = """
select '{kind}', p.meeting, p.date, p.page, p.page_image, snippet({table}_fts, 0, ?, ?, ' … ', 24), {table}_fts.rank
from {table}_fts
join {table} p on p.rowid = {table}_fts.rowid
where {table}_fts match ? and p.date >= ?
order by {table}_fts.rank, p.date desc
limit ?
"""
_QUERIES = {
    "minutes": _QUERY.format(kind="minutes", table="minutes"),
    "agendas": _QUERY.format(kind="agenda", table="agendas"),
}


@dataclass(frozen=True)
class Hit:
    subdomain: str
    kind: str
    meeting: str
    date: str
    page: int
    page_image: str | None
    snippet: str
    rank: float
    """By FTS5, the lower the better; to be compared within one archive only."""
    place: int
    """1 is the best page of its archive (of its minutes, or of its agendas)."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"snippet": re.sub("[\x02\x03]", "", self.snippet)}


@dataclass
class SearchResult:
    hits: list[Hit] = field(default_factory=list)
    archives: int = 0
    """How many were looked through."""
    broken: dict[str, str] = field(default_factory=dict)
    """Site → why its archive could not be searched."""
    unreached: int = 0
    """Archives for which there was no time."""


class _OutOfTime(Exception):
    pass


def search(
    archives: Iterable[tuple[str, Path]],
    words: str,
    since: date | None = None,
    limit: int = 20,
    seconds: float | None = None,
) -> SearchResult:
    """The best pages of `archives` (subdomain, database) that have every word; words in quotes stand side by side,
    and a word that ends in * stands for all that begin with it.

    After `seconds` it ends with what it has. A damaged archive is named, and the others are searched all the same.
    """
    found = SearchResult()
    query = as_fts_query(words)
    if not query:
        return found
    deadline = None if seconds is None else time.monotonic() + seconds
    waiting = list(archives)
    for subdomain, database in waiting:
        try:
            found.hits += _search_one(subdomain, database, query, since, limit, deadline)
        except _OutOfTime:
            found.unreached = len(waiting) - found.archives - len(found.broken)
            break
        except sqlite3.Error as error:
            found.broken[subdomain] = str(error)
        else:
            found.archives += 1
    newest_first = sorted(found.hits, key=lambda hit: hit.date, reverse=True)
    found.hits = sorted(newest_first, key=lambda hit: hit.place)[:limit]
    return found


def as_fts_query(words: str) -> str:
    """Every term quoted, so that no character of a person's search means something to FTS5."""
    terms = [phrase or word for phrase, word in re.findall(r'"([^"]+)"|(\S+)', words)]
    cleaned = [term.replace('"', "").replace("\0", "").strip() for term in terms]
    return " ".join(f'"{term.rstrip("*")}"' + "*" * term.endswith("*") for term in cleaned if re.search(r"\w", term))


def highlight(text: str, words: str) -> str:
    """The text with MARKS around what a search for `words` finds in it, by the archive's own rules for words."""
    query = as_fts_query(words)
    if not query:
        return text
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("create virtual table page using fts5 (text, tokenize='unicode61 remove_diacritics 2')")
        connection.execute("insert into page (text) values (?)", [text])
        row = connection.execute("select highlight(page, 0, ?, ?) from page where page match ?", [*HIGHLIGHT, query])
        return next((found for (found,) in row), text)


def _search_one(
    subdomain: str, database: Path, query: str, since: date | None, limit: int, deadline: float | None
) -> list[Hit]:
    def is_over() -> bool:
        return deadline is not None and time.monotonic() > deadline

    if is_over():
        raise _OutOfTime
    arguments = [*HIGHLIGHT, query, since.isoformat() if since else "", limit]
    with open_readonly(database) as connection:
        connection.set_progress_handler(is_over, _STEPS_BETWEEN_LOOKS_AT_THE_CLOCK)
        try:
            return [
                Hit(subdomain, *(*row, place))
                for sql in _QUERIES.values()
                for place, row in enumerate(connection.execute(sql, arguments), 1)
            ]
        except sqlite3.OperationalError:
            if is_over():
                raise _OutOfTime from None
            raise
