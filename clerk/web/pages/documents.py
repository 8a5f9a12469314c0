"""The documents of one site, as its page lists them: filtered, a page at a time. There may be twenty thousand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import DictRow

from clerk.web import paging
from clerk.web.db import Example, rows

PAGE_SIZE = 50
STATES = ("failed", "open", "done")

# Older revisions are on the page of the document.
_MATCHING = sql.SQL("""
    from site_documents
    where subdomain = %(subdomain)s and superseded_at is null
      and (%(text)s = '' or strpos(lower(meeting), lower(%(text)s)) > 0 or strpos(date::text, %(text)s) = 1)
""")
_COUNTS = sql.SQL("select state, count(*) as documents {matching} group by state").format(matching=_MATCHING)
_DOCUMENTS = sql.SQL("""
    select d.*
    from (
        select id {matching} and (%(state)s = '' or state = %(state)s)
        order by date desc, id desc limit %(limit)s offset %(offset)s
    ) page
    join site_documents d on d.id = page.id
    order by d.date desc, d.id desc
""").format(matching=_MATCHING)
# The same without the filter by state: then the ledger is asked for the documents of one page only.
_DOCUMENTS_OF_ANY_STATE = sql.SQL("""
    select d.*
    from (select id {matching} order by date desc, id desc limit %(limit)s offset %(offset)s) page
    join site_documents d on d.id = page.id
    order by d.date desc, d.id desc
""").format(matching=_MATCHING)
QUERIES: list[Example] = [
    (query, {"subdomain": "", "text": "", "state": "", "limit": 1, "offset": 0})
    for query in (_COUNTS, _DOCUMENTS, _DOCUMENTS_OF_ANY_STATE)
]


@dataclass(frozen=True)
class Choice:
    """Which documents to list. Anything may stand in a URL, so every field is brought within its bounds."""

    text: str = ""
    state: str = ""
    page: int = 1

    @classmethod
    def of(cls, text: str, state: str, page: str) -> Choice:
        return cls(paging.text(text), state if state in STATES else "", paging.page_number(page))


@dataclass(frozen=True)
class Listing:
    documents: list[DictRow]
    counts: dict[str, int]
    """How many are in which state, of those that fit the text."""
    page: int
    pages: int

    @property
    def total(self) -> int:
        return sum(self.counts.values())


_BY_INDEX = sql.SQL("select set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true)")


def read_documents(connection: psycopg.Connection, subdomain: str, choice: Choice) -> Listing:
    """Last of a page, since its way of joining stays for the rest of the transaction.

    Document by document: what it costs then follows from this site's documents. Left alone, Postgres prefers to read
    the whole ledger as soon as a site has a few percent of it.
    """
    rows(connection, _BY_INDEX)
    wanted: dict[str, Any] = {"subdomain": subdomain, **vars(choice), "limit": PAGE_SIZE}
    counts = dict.fromkeys(STATES, 0) | {
        row["state"]: row["documents"] for row in rows(connection, _COUNTS, wanted | {"offset": 0})
    }
    fitting = counts[choice.state] if choice.state else sum(counts.values())
    number, pages = paging.page_of(fitting, choice.page, PAGE_SIZE)
    query = _DOCUMENTS if choice.state else _DOCUMENTS_OF_ANY_STATE
    return Listing(rows(connection, query, wanted | {"offset": (number - 1) * PAGE_SIZE}), counts, number, pages)
