"""Looks for words in archives, newest first among equally good."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

from clerk.archive.contents import reading

MARKS = ("\x02", "\x03")
"""Around a word that was found: characters that no page text shows, for the caller to replace."""

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

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"snippet": re.sub("[\x02\x03]", "", self.snippet)}


def search(archives: Iterable[tuple[str, Path]], words: str, since: date | None = None, limit: int = 20) -> list[Hit]:
    """The best pages of `archives` (subdomain, database) that have every word; words in quotes stand side by side."""
    query = as_fts_query(words)
    if not query:
        return []
    hits = [hit for archive in archives for hit in _search_one(*archive, query, since, limit)]
    return sorted(sorted(hits, key=lambda hit: hit.date, reverse=True), key=lambda hit: hit.rank)[:limit]


def as_fts_query(words: str) -> str:
    """Every term quoted, so that no character of a person's search means something to FTS5."""
    terms = [phrase or word for phrase, word in re.findall(r'"([^"]+)"|(\S+)', words)]
    cleaned = [term.replace('"', "").replace("\0", "").strip() for term in terms]
    return " ".join(f'"{term}"' for term in cleaned if re.search(r"\w", term))


def _search_one(subdomain: str, database: Path, query: str, since: date | None, limit: int) -> Iterator[Hit]:
    with reading(database) as connection:
        for sql in _QUERIES.values():
            arguments = [*MARKS, query, since.isoformat() if since else "", limit]
            for row in connection.execute(sql, arguments):
                yield Hit(subdomain, *row)
