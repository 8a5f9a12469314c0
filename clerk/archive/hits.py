"""A page that a search found: its text, its permanent path, its citation and its source."""

from __future__ import annotations

import re
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from datetime import date
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from clerk.archive.content_hash import open_readonly
from clerk.archive.pages import TABLES, existing_tables, kind_of_row
from clerk.archive.query import ArchiveForm, Query
from clerk.archive.search_tables import detect_form
from clerk.object_storage.path import StoragePath

if TYPE_CHECKING:
    from clerk.archive.search import Match

CSV_COLUMNS = (
    "subdomain", "kind", "meeting", "date", "page", "snippet", "citation", "source_url", "added_at", "path", "id",
)  # fmt: skip
PAGE_ROUTE = "/-/pages"
"""Path of all pages in the dashboard and in `clerk serve`."""
MEETING_ROUTE = "/-/meetings"
_PAGE = "select p.text, p.page_image, null, null from PAGES p where p.id = ?"
_PAGE_WITH_SOURCE = """
select p.text, p.page_image, d.source_url, d.added_at
from PAGES p
left join document_sources d on d.kind = ? and d.meeting = p.meeting and d.date = p.date
where p.id = ?
"""

_FIND_PAGE = """
select p.id,
       exists (select 1 from PAGES o
               where KIND_O = :kind and o.date = :date and o.meeting = :meeting and o.page = :page - 1),
       exists (select 1 from PAGES o
               where KIND_O = :kind and o.date = :date and o.meeting = :meeting and o.page = :page + 1),
       (select count(*) from PAGES o where KIND_O = :kind and o.date = :date and o.meeting = :meeting)
from PAGES p
where KIND_P = :kind and p.date = :date and p.meeting = :meeting and p.page = :page
order by p.id limit 1
"""
_TEXTS = (
    "select p.page, p.text from PAGES p where KIND = ? and p.date = ? and p.meeting = ? order by p.page, p.id limit ?"
)


@dataclass(frozen=True)
class Hit:
    subdomain: str
    kind: str
    id: str
    meeting: str
    date: str
    page: int
    page_image: str | None
    snippet: str
    score: float
    """Lower is better. Comparable within one archive, or within the index over all sites."""
    rank: int
    """1 is the best page of its archive's minutes, agendas or other documents, or of the index over all sites."""
    source_url: str | None = None
    added_at: str | None = None

    @property
    def path(self) -> str:
        return page_path(self.subdomain, self.kind, self.date, self.meeting, self.page)

    @property
    def citation(self) -> str:
        return cite(self.subdomain, self.kind, self.date, self.meeting, self.page, self.source_url)

    def as_dict(self) -> dict[str, Any]:
        fields = asdict(self) | {"path": self.path, "citation": self.citation}
        return fields | {"snippet": re.sub("[\x02\x03]", "", self.snippet)}

    def as_csv_row(self, columns: Iterable[str]) -> list[str]:
        """An apostrophe keeps a spreadsheet from taking text that begins with =, +, - or @ for a formula."""
        fields = self.as_dict()
        cells = ("" if fields[name] is None else " ".join(str(fields[name]).split()) for name in columns)
        return [f"'{cell}" if cell.startswith(("=", "+", "-", "@")) else cell for cell in cells]


def page_path(subdomain: str, kind: str, day: str, meeting: str, page: int) -> str:
    """The permanent path of a page. Unlike the page's id, it stays when the text changes."""
    return "/".join([PAGE_ROUTE, *(quote(part, safe="") for part in (subdomain, kind, day, meeting)), str(page)])


def meeting_path(subdomain: str, day: str, meeting: str) -> str:
    """The permanent path of a meeting in `clerk serve`."""
    return "/".join([MEETING_ROUTE, *(quote(part, safe="") for part in (subdomain, day, meeting))])


def cite(site: str, kind: str, day: str, meeting: str, page: int, source_url: str | None) -> str:
    """`Springfield, City Council, minutes of 5 March 2024, page 7. https://…`"""
    return f"{site}, {meeting}, {kind} of {date_in_words(day)}, page {page}." + (f" {source_url}" if source_url else "")


def cite_meeting(site: str, day: str, meeting: str) -> str:
    """`Springfield, City Council, meeting of 5 March 2024.`"""
    return f"{site}, {meeting}, meeting of {date_in_words(day)}."


def date_in_words(day: str) -> str:
    """`5 March 2024`; what is not a date stays as it is written."""
    try:
        when = date.fromisoformat(day)
    except ValueError:
        return day
    return f"{when.day} {when:%B %Y}"


@dataclass(frozen=True)
class StoredPage:
    """A page of an archive, found by its permanent path."""

    id: str
    text: str
    page_image: str | None
    source_url: str | None
    added_at: str | None
    has_previous: bool
    has_next: bool
    page_count: int
    """Of its document."""


def read_page(connection: sqlite3.Connection, kind: str, day: str, meeting: str, page: int) -> StoredPage | None:
    place = {"kind": kind, "date": day, "meeting": meeting, "page": page}
    table = TABLES[kind]
    if table not in existing_tables(connection):
        return None
    query = _FIND_PAGE.replace("KIND_P", kind_of_row(table, "p")).replace("KIND_O", kind_of_row(table, "o"))
    row = connection.execute(query.replace("PAGES", table), place).fetchone()
    if row is None:
        return None
    page_id, has_previous, has_next, page_count = row
    text, page_image, source_url, added_at = _read_row(connection, kind, page_id)
    return StoredPage(page_id, text, page_image, source_url, added_at, bool(has_previous), bool(has_next), page_count)


def read_texts(connection: sqlite3.Connection, kind: str, day: str, meeting: str, limit: int = -1) -> dict[int, str]:
    """Number → text of the pages of a document, in order; empty if the archive does not have it."""
    table = TABLES[kind]
    if table not in existing_tables(connection):
        return {}
    query = _TEXTS.replace("PAGES", table).replace("KIND", kind_of_row(table, "p"))
    return dict(connection.execute(query, [kind, day, meeting, limit]).fetchall())


def load_hits(
    matches: Iterable[Match], database_of: Callable[[str], StoragePath | None], query: Query
) -> tuple[list[Hit], dict[str, str]]:
    """The hits in the order of `matches`, and subdomain → why its texts could not be read.

    A page that is no longer in its archive is left out: the index over all sites is updated after the switch to a new
    version."""
    matches = list(matches)
    by_site: dict[str, list[Match]] = defaultdict(list)
    for match in matches:
        by_site[match.subdomain].append(match)
    hits: dict[Match, Hit] = {}
    broken: dict[str, str] = {}
    for subdomain, found in by_site.items():
        database = database_of(subdomain)
        if database is None:
            continue
        try:
            with open_readonly(database) as connection:
                hits |= {match: hit for match in found if (hit := _load_hit(connection, match, query)) is not None}
        except sqlite3.Error as error:
            broken[subdomain] = str(error)
    return [hits[match] for match in matches if match in hits], broken


def _read_row(connection: sqlite3.Connection, kind: str, page_id: str) -> Any:
    """Text, image, source and when it was added; None if there is no such page."""
    if detect_form(connection) is ArchiveForm.TERMS:
        return connection.execute(_PAGE_WITH_SOURCE.replace("PAGES", TABLES[kind]), [kind, page_id]).fetchone()
    return connection.execute(_PAGE.replace("PAGES", TABLES[kind]), [page_id]).fetchone()


def _load_hit(connection: sqlite3.Connection, match: Match, query: Query) -> Hit | None:
    row = _read_row(connection, match.kind, match.id)
    if row is None:
        return None
    text, page_image, source_url, added_at = row
    place = (match.subdomain, match.kind, match.id, match.meeting, match.date, match.page, page_image)
    return Hit(*place, query.snippet(text), match.score, match.rank, source_url, added_at)
