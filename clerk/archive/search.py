"""Full-text search in archives: the query that `clerk search`, the dashboard and Datasette use.

FTS5 scores compare pages of one archive only: where a word is rare, its pages score better than any page of an archive
where it is common. Results of several archives are therefore sorted by their rank within the archive, then by date.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterable
from contextlib import closing
from dataclasses import asdict, dataclass, field
from datetime import date
from importlib import resources
from pathlib import Path
from typing import Any

from clerk.archive.content_hash import OTHER_DOCUMENTS, has_table, open_readonly

HIGHLIGHT = ("\x02", "\x03")
"""Start and end marks of a match in a snippet. The caller replaces these control characters."""
SEARCH_SQL = resources.files("clerk.archive").joinpath("search.sql").read_text(encoding="utf-8")
"""Parameters: words, since (ISO date or ''), limit, mark_start, mark_end. Needs a connection with `prepare`."""
SEARCH_OTHER_SQL = resources.files("clerk.archive").joinpath("search_other_documents.sql").read_text(encoding="utf-8")
"""The same for the table other_documents. Only for archives that have it."""

_OPCODES_PER_DEADLINE_CHECK = 10_000


@dataclass(frozen=True)
class Hit:
    subdomain: str
    kind: str
    meeting: str
    date: str
    page: int
    page_image: str | None
    snippet: str
    score: float
    """FTS5's bm25: lower is better. Comparable within one archive only."""
    rank: int
    """1 is the best page of the archive among those of its kind."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"snippet": re.sub("[\x02\x03]", "", self.snippet)}


@dataclass
class SearchResult:
    hits: list[Hit] = field(default_factory=list)
    archives: int = 0
    """Number of archives that were searched."""
    broken: dict[str, str] = field(default_factory=dict)
    """Subdomain → why its archive could not be searched."""
    unreached: int = 0
    """Number of archives that were not searched before the time limit."""


class _TimeLimit(Exception):
    pass


def search(
    archives: Iterable[tuple[str, Path]],
    words: str,
    since: date | None = None,
    limit: int = 20,
    seconds: float | None = None,
) -> SearchResult:
    """The best pages of `archives` (subdomain, database) that contain every word.

    Quoted words must be adjacent; `bik*` matches a prefix. After `seconds` the search stops and returns what it has. A
    damaged archive is reported in `broken`, and the others are searched.
    """
    result = SearchResult()
    if not as_fts_query(words):
        return result
    deadline = None if seconds is None else time.monotonic() + seconds
    archives = list(archives)
    for subdomain, database in archives:
        try:
            result.hits += _search_archive(subdomain, database, words, since, limit, deadline)
        except _TimeLimit:
            result.unreached = len(archives) - result.archives - len(result.broken)
            break
        except sqlite3.Error as error:
            result.broken[subdomain] = str(error)
        else:
            result.archives += 1
    newest_first = sorted(result.hits, key=lambda hit: hit.date, reverse=True)
    result.hits = sorted(newest_first, key=lambda hit: hit.rank)[:limit]
    return result


def as_fts_query(words: str) -> str:
    """An FTS5 query for what a person typed. Every term is quoted, so that FTS5 operators have no meaning."""
    terms = [phrase or word for phrase, word in re.findall(r'"([^"]+)"|(\S+)', words)]
    cleaned = [term.replace('"', "").replace("\0", "").strip() for term in terms]
    return " ".join(f'"{term.rstrip("*")}"' + "*" * term.endswith("*") for term in cleaned if re.search(r"\w", term))


def prepare(connection: sqlite3.Connection) -> None:
    """Register the function that SEARCH_SQL calls."""
    # FTS5 rejects an empty query; an empty phrase matches nothing.
    connection.create_function("as_fts_query", 1, lambda words: as_fts_query(words) or '""', deterministic=True)


def highlight(text: str, words: str) -> str:
    """The text with HIGHLIGHT marks around the matches, tokenized as in the archive."""
    query = as_fts_query(words)
    if not query:
        return text
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("create virtual table page using fts5 (text, tokenize='unicode61 remove_diacritics 2')")
        connection.execute("insert into page (text) values (?)", [text])
        row = connection.execute("select highlight(page, 0, ?, ?) from page where page match ?", [*HIGHLIGHT, query])
        return next((highlighted for (highlighted,) in row), text)


def _search_archive(
    subdomain: str, database: Path, words: str, since: date | None, limit: int, deadline: float | None
) -> list[Hit]:
    def is_past_deadline() -> bool:
        return deadline is not None and time.monotonic() > deadline

    if is_past_deadline():
        raise _TimeLimit
    parameters = {
        "words": words,
        "since": since.isoformat() if since else "",
        "limit": limit,
        "mark_start": HIGHLIGHT[0],
        "mark_end": HIGHLIGHT[1],
    }
    with open_readonly(database) as connection:
        prepare(connection)
        connection.set_progress_handler(is_past_deadline, _OPCODES_PER_DEADLINE_CHECK)
        try:
            queries = [SEARCH_SQL, *([SEARCH_OTHER_SQL] if has_table(connection, OTHER_DOCUMENTS) else [])]
            return [Hit(subdomain, *row) for query in queries for row in connection.execute(query, parameters)]
        except sqlite3.OperationalError:
            if is_past_deadline():
                raise _TimeLimit from None
            raise
