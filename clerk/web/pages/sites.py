"""All sites: filtered, sorted, a page at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, LiteralString
from urllib.parse import urlencode

from psycopg import sql
from psycopg.rows import DictRow
from starlette.requests import Request
from starlette.responses import Response

from clerk.pg.overview import Progress, read_progress
from clerk.web.reading import STAGES, Example, Reader, rows
from clerk.web.rendering import page

PAGE_SIZE = 100

_MATCHING = sql.SQL("""
    from pipeline_overview
    where (%(text)s = '' or strpos(lower(subdomain), lower(%(text)s)) > 0
           or strpos(lower(coalesce(name, '')), lower(%(text)s)) > 0)
      and (%(stage)s = '' or coalesce(current_stage, 'never run') = %(stage)s)
""")
_COUNT = sql.SQL("select count(*) as sites {matching}").format(matching=_MATCHING)
_SITES = """
    select subdomain, name, updated_at,
           fetch_failed + ocr_failed + compilation_failed + extraction_failed + deploy_failed as failed
    {matching}
    order by {order} limit %(limit)s offset %(offset)s
"""
_ORDERS: dict[str, LiteralString] = {
    "site": "subdomain",
    "-site": "subdomain desc",
    "stage": "current_stage nulls first, subdomain",
    "-stage": "current_stage desc nulls last, subdomain",
    "failed": "failed, subdomain",
    "-failed": "failed desc, subdomain",
    "updated": "updated_at nulls first, subdomain",
    "-updated": "updated_at desc nulls last, subdomain",
}
_SORTED = {key: sql.SQL(_SITES).format(matching=_MATCHING, order=sql.SQL(order)) for key, order in _ORDERS.items()}
QUERIES: list[Example] = [
    (query, {"text": "", "stage": "", "limit": 1, "offset": 0}) for query in (_COUNT, *_SORTED.values())
]


@dataclass(frozen=True)
class Choice:
    """Which sites to list. Anything may stand in a URL, so every field is brought within its bounds."""

    text: str = ""
    stage: str = ""
    order: str = "site"
    page: int = 1

    @classmethod
    def of(cls, text: str, stage: str, order: str, page: str) -> Choice:
        return cls(
            text.replace("\0", "")[:100].strip(),
            stage if stage in (*STAGES, "completed", "never run") else "",
            order if order in _SORTED else "site",
            max(1, int(page)) if page.isascii() and page.isdigit() and len(page) < 8 else 1,
        )


@dataclass(frozen=True)
class Listing:
    sites: list[tuple[DictRow, Progress]]
    total: int
    page: int
    pages: int


def show(request: Request) -> Response:
    given = request.query_params
    choice = Choice.of(*(given.get(name, "") for name in ("text", "stage", "order", "page")))
    listing = read_sites(request.app.state.reader, choice)
    return page("sites.html", choice=choice, listing=listing, stages=STAGES, link=_link_to(choice))


def read_sites(reader: Reader, choice: Choice) -> Listing:
    wanted: dict[str, Any] = {"text": choice.text, "stage": choice.stage, "limit": PAGE_SIZE}
    with reader.reading() as connection:
        total = rows(connection, _COUNT, wanted)[0]["sites"]
        pages = max(1, -(-total // PAGE_SIZE))
        number = min(choice.page, pages)
        found = rows(connection, _SORTED[choice.order], wanted | {"offset": (number - 1) * PAGE_SIZE})
        progress = {far.subdomain: far for far in read_progress(connection, [row["subdomain"] for row in found])}
    return Listing([(row, progress[row["subdomain"]]) for row in found], total, number, pages)


def _link_to(choice: Choice) -> Callable[..., str]:
    """In a template: the address of the same list with something changed. What is left at its default is left out."""

    def link(**changes: Any) -> str:
        wanted = vars(choice) | {"page": 1} | changes
        default = vars(Choice())
        return "/sites?" + urlencode({name: value for name, value in wanted.items() if value != default[name]})

    return link
