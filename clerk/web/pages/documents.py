"""The paginated list of documents on a site's page. A site can have 20,000 documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from clerk.web import paging
from clerk.web.db import SampleQuery, fetch_rows
from clerk.web.paging import ResultPage

PAGE_SIZE = 50
STATES = ("failed", "open", "done")

# Older revisions are shown on the page of their document.
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
# Without the filter by state, the ledger is joined for the documents of one page only.
_DOCUMENTS_IN_ANY_STATE = sql.SQL("""
    select d.*
    from (select id {matching} order by date desc, id desc limit %(limit)s offset %(offset)s) page
    join site_documents d on d.id = page.id
    order by d.date desc, d.id desc
""").format(matching=_MATCHING)
_USE_INDEXES = sql.SQL("select set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true)")
QUERIES: list[SampleQuery] = [
    (query, {"subdomain": "", "text": "", "state": "", "limit": 1, "offset": 0})
    for query in (_COUNTS, _DOCUMENTS, _DOCUMENTS_IN_ANY_STATE)
]


@dataclass(frozen=True)
class DocumentParams:
    """Query parameters of the page. Invalid values are replaced by the defaults."""

    text: str = ""
    state: str = ""
    page: int = 1

    @classmethod
    def parse(cls, text: str, state: str, page: str) -> DocumentParams:
        return cls(paging.parse_text(text), state if state in STATES else "", paging.parse_page(page))


@dataclass(frozen=True)
class DocumentPage(ResultPage):
    counts: dict[str, int]
    """State → number of documents that match the text."""


def read_documents(connection: psycopg.Connection, subdomain: str, params: DocumentParams) -> DocumentPage:
    """Call it last in a transaction, since it changes the planner's settings for the rest of it.

    Without hash and merge joins the cost is proportional to the site's documents. By default Postgres scans the whole
    ledger as soon as a site has a few percent of it.
    """
    fetch_rows(connection, _USE_INDEXES)
    values: dict[str, Any] = {"subdomain": subdomain, **vars(params), "limit": PAGE_SIZE}
    counts = dict.fromkeys(STATES, 0) | {
        row["state"]: row["documents"] for row in fetch_rows(connection, _COUNTS, values | {"offset": 0})
    }
    total = counts[params.state] if params.state else sum(counts.values())
    page, pages = paging.clamp_page(total, params.page, PAGE_SIZE)
    query = _DOCUMENTS if params.state else _DOCUMENTS_IN_ANY_STATE
    rows = fetch_rows(connection, query, values | {"offset": (page - 1) * PAGE_SIZE})
    return DocumentPage(rows, total, page, pages, counts)
