"""Full-text search in archives, for `clerk search`, the dashboard and `clerk serve`.

FTS5 scores compare pages of one archive only: where a word is rare, its pages score better than any page of an archive
where it is common. Results of several archives are therefore sorted by their rank within the archive, then by date.
"""

from __future__ import annotations

import heapq
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum

from clerk.archive.content_hash import open_readonly
from clerk.archive.hits import Hit, load_hits
from clerk.archive.pages import TABLES, existing_tables, kind_of_row
from clerk.archive.query import ArchiveForm, Query
from clerk.archive.search_tables import detect_form
from clerk.object_storage.path import StoragePath

_OPCODES_PER_DEADLINE_CHECK = 10_000
_MATCHES = """
select KIND, p.id, p.meeting, p.date, p.page, SCORE
from INDEX_TABLE join PAGES p on p.rowid = INDEX_TABLE.rowid
where INDEX_TABLE match :query and p.date >= :since
  and (:body = '' or p.meeting = :body) and (:year = '' or substr(p.date, 1, 4) = :year)
  and (:kind = '' or KIND = :kind)
"""
_ADDED_SINCE = """
  and exists (select 1 from document_sources d
              where d.kind = KIND and d.meeting = p.meeting and d.date = p.date and d.added_at >= :added_since)
"""


class Sort(StrEnum):
    RELEVANCE = "relevance"
    DATE = "date"
    """Newest meeting first."""


@dataclass(frozen=True)
class SearchRequest:
    query: Query
    since: date | None = None
    added_since: date | None = None
    """Pages of documents that clerk found on or after this day."""
    body: str = ""
    kind: str = ""
    year: str = ""
    sort: Sort = Sort.RELEVANCE
    offset: int = 0
    limit: int | None = 20
    """None: all."""

    @property
    def end(self) -> int | None:
        return None if self.limit is None else self.offset + self.limit


@dataclass(frozen=True)
class Match:
    """A page that matches, before its text is read."""

    subdomain: str
    kind: str
    id: str
    meeting: str
    date: str
    page: int
    score: float
    """Lower is better. Comparable within one archive, or within the index over all sites."""
    rank: int = 0
    """1 is the best page of its archive's minutes, agendas or other documents, or of the index."""


@dataclass
class Facets:
    """Numbers of matching pages."""

    site: Counter[str] = field(default_factory=Counter)
    body: Counter[str] = field(default_factory=Counter)
    kind: Counter[str] = field(default_factory=Counter)
    year: Counter[str] = field(default_factory=Counter)

    def as_dict(self) -> dict[str, dict[str, int]]:
        """Each facet's values, the most frequent first; years, the newest first."""
        frequent = {
            name: dict(sorted(counter.items(), key=lambda item: (-item[1], item[0])))
            for name, counter in (("site", self.site), ("body", self.body), ("kind", self.kind))
        }
        return frequent | {"year": dict(sorted(self.year.items(), reverse=True))}


@dataclass
class Matches:
    """What one archive, or the index over all sites, contributes: all counts, and the first matches in order."""

    first: list[Match] = field(default_factory=list)
    total: int = 0
    facets: Facets = field(default_factory=Facets)
    archives: int = 1


@dataclass
class SearchResult:
    hits: list[Hit] = field(default_factory=list)
    total: int = 0
    """Number of all matching pages."""
    facets: Facets = field(default_factory=Facets)
    archives: int = 0
    """Number of archives that were searched."""
    broken: dict[str, str] = field(default_factory=dict)
    """Subdomain → why its archive could not be searched."""
    unreached: int = 0
    """Number of archives that were not searched before the time limit."""
    older_form: int = 0
    """Number of archives without search terms, where words match as written only and `added_since` finds nothing."""


class _TimeLimit(Exception):
    pass


def search(
    archives: Iterable[tuple[str, StoragePath]],
    request: SearchRequest,
    seconds: float | None = None,
    indexed: Matches | None = None,
    databases: Callable[[str], StoragePath | None] = lambda subdomain: None,
) -> SearchResult:
    """Search `archives` (subdomain, database). After `seconds` the search stops and returns what it has.

    `indexed`: matches of other archives, found by an index. `databases`: where their texts are read. A damaged archive
    is reported in `broken`, and the others are searched.
    """
    result = SearchResult()
    deadline = None if seconds is None else time.monotonic() + seconds
    # The link `current` may be switched meanwhile; the version that it named stays.
    paths = {subdomain: database.resolve() for subdomain, database in archives}
    found = [indexed] if indexed is not None else []
    for subdomain, database in paths.items():
        try:
            matches, form = _search_archive(subdomain, database, request, deadline)
        except _TimeLimit:
            result.unreached = len(paths) - len(found) + (indexed is not None) - len(result.broken)
            break
        except sqlite3.Error as error:
            result.broken[subdomain] = str(error)
        else:
            found.append(matches)
            result.older_form += form is ArchiveForm.TEXT
    _merge(result, found)
    ordered = sort_matches([match for matches in found for match in matches.first], request.sort)
    chosen = ordered[request.offset : request.end]
    result.hits, broken = load_hits(chosen, lambda site: paths.get(site) or databases(site), request.query)
    result.broken |= broken
    return result


def sort_matches(matches: Iterable[Match], sort: Sort) -> list[Match]:
    by_place = sorted(matches, key=lambda match: (match.subdomain, match.meeting, match.kind, match.page))
    by_date = sorted(by_place, key=lambda match: match.date, reverse=True)
    return by_date if sort is Sort.DATE else sorted(by_date, key=lambda match: match.rank)


def _merge(result: SearchResult, found: Sequence[Matches]) -> None:
    for matches in found:
        result.total += matches.total
        result.archives += matches.archives
        result.facets.site.update(matches.facets.site)
        result.facets.body.update(matches.facets.body)
        result.facets.kind.update(matches.facets.kind)
        result.facets.year.update(matches.facets.year)


def _search_archive(
    subdomain: str, database: StoragePath, request: SearchRequest, deadline: float | None
) -> tuple[Matches, ArchiveForm]:
    def is_past_deadline() -> bool:
        return deadline is not None and time.monotonic() > deadline

    if is_past_deadline():
        raise _TimeLimit
    with open_readonly(database) as connection:
        connection.set_progress_handler(is_past_deadline, _OPCODES_PER_DEADLINE_CHECK)
        try:
            form = detect_form(connection)
            result = Matches()
            for table in existing_tables(connection):
                if request.kind and TABLES[request.kind] != table:
                    continue
                if form is ArchiveForm.TERMS or request.added_since is None:
                    _search_table(connection, subdomain, table, form, request, result)
            return result, form
        except sqlite3.OperationalError:
            if is_past_deadline():
                raise _TimeLimit from None
            raise


def _search_table(
    connection: sqlite3.Connection,
    subdomain: str,
    table: str,
    form: ArchiveForm,
    request: SearchRequest,
    result: Matches,
) -> None:
    index = f"{table}_search" if form is ArchiveForm.TERMS else f"{table}_fts"
    query = _MATCHES + (_ADDED_SINCE if request.added_since else "")
    query = query.replace("PAGES", table).replace("KIND", kind_of_row(table, "p"))
    query = query.replace("SCORE", f"{index}.rank" if request.sort is Sort.RELEVANCE else "0")
    values = {
        "query": request.query.as_fts(form),
        "since": request.since.isoformat() if request.since else "",
        "added_since": request.added_since.isoformat() if request.added_since else "",
        "body": request.body,
        "kind": request.kind,
        "year": request.year,
    }
    rows = connection.execute(query.replace("INDEX_TABLE", index), values).fetchall()
    result.total += len(rows)
    if rows:
        result.facets.site[subdomain] += len(rows)
    result.facets.kind.update(row[0] for row in rows)
    result.facets.body.update(row[2] for row in rows)
    result.facets.year.update(row[3][:4] for row in rows)
    rows = sorted(rows, key=lambda row: row[3], reverse=True)
    if request.sort is Sort.RELEVANCE:
        rows = (
            sorted(rows, key=lambda row: row[5])
            if request.end is None
            else heapq.nsmallest(request.end, rows, key=lambda row: row[5])
        )
    result.first += [
        Match(subdomain, kind, page_id, meeting, day, page, score, rank)
        for rank, (kind, page_id, meeting, day, page, score) in enumerate(rows[: request.end], 1)
    ]
