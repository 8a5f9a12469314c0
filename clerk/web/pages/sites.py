"""All sites: filtered, sorted, a page at a time; those that need somebody first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import LiteralString

from psycopg import sql
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from clerk.pipeline.engine import STAGES
from clerk.web.db import Example, ReadOnlyPool, rows
from clerk.web.paging import PAGE_SIZE, Listing, link_to, page_number, page_of, text
from clerk.web.rendering import page

OUTCOMES = ("succeeded", "partial", "failed", "unchanged", "no_documents", "cancelled")
ONLY = {
    "stuck": "stuck",
    "failed": "whose last run failed",
    "failing": "with failed documents",
    "paused": "paused",
    "going": "whose run is going",
}
_FIRST = "attention"

_MATCHING = sql.SQL("""
    from (
        select *, fetch_failed + ocr_failed + compilation_failed + extraction_failed + deploy_failed as failed
        from pipeline_overview
    ) o
    where (%(text)s = '' or strpos(lower(subdomain), lower(%(text)s)) > 0
           or strpos(lower(coalesce(name, '')), lower(%(text)s)) > 0)
      and (%(stage)s = '' or coalesce(current_stage, 'never run') = %(stage)s)
      and (%(outcome)s = '' or outcome = %(outcome)s)
      and case %(only)s when 'stuck' then stuck
                        when 'failed' then outcome = 'failed'
                        when 'failing' then failed > 0
                        when 'paused' then paused
                        when 'going' then phase is not null
                        else true end
""")
_COUNT = sql.SQL("select count(*) as sites {matching}").format(matching=_MATCHING)
_SITES = """
    select subdomain, name, current_stage, outcome, stuck, paused, paused_by, idle_for, eta, updated_at, failed,
           fetch_total, fetch_completed, fetch_failed,
           ocr_total, ocr_completed, ocr_failed,
           compilation_total, compilation_completed, compilation_failed,
           extraction_total, extraction_completed, extraction_failed,
           deploy_total, deploy_completed, deploy_failed
    {matching}
    order by {order} limit %(limit)s offset %(offset)s
"""
_ORDERS: dict[str, LiteralString] = {
    _FIRST: "stuck desc, coalesce(outcome = 'failed', false) desc, failed > 0 desc, phase is null, subdomain",
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
    (query, {"text": "", "stage": "", "outcome": "", "only": "", "limit": 1, "offset": 0})
    for query in (_COUNT, *_SORTED.values())
]


@dataclass(frozen=True)
class Choice:
    """Which sites to list. Anything may stand in a URL, so every field is brought within its bounds."""

    text: str = ""
    stage: str = ""
    outcome: str = ""
    only: str = ""
    order: str = _FIRST
    page: int = 1

    @classmethod
    def of(cls, given: QueryParams) -> Choice:
        def one_of(name: str, known: object, otherwise: str = "") -> str:
            return value if (value := given.get(name, "")) in known else otherwise  # type: ignore[operator]

        return cls(
            text(given.get("text", "")),
            one_of("stage", (*STAGES, "completed", "never run")),
            one_of("outcome", OUTCOMES),
            one_of("only", ONLY),
            one_of("order", _ORDERS, _FIRST),
            page_number(given.get("page", "")),
        )

    @property
    def narrows(self) -> bool:
        return bool(self.text or self.stage or self.outcome or self.only)


def show(request: Request) -> Response:
    choice = Choice.of(request.query_params)
    listing = read_sites(request.app.state.reader, choice)
    return page(
        "sites.html",
        choice=choice,
        listing=listing,
        stages=STAGES,
        outcomes=OUTCOMES,
        only=ONLY,
        link=link_to("/sites", choice),
    )


def read_sites(reader: ReadOnlyPool, choice: Choice) -> Listing:
    wanted = {name: getattr(choice, name) for name in ("text", "stage", "outcome", "only")}
    with reader.reading() as connection:
        total = rows(connection, _COUNT, wanted)[0]["sites"]
        number, pages = page_of(total, choice.page)
        place = {"limit": PAGE_SIZE, "offset": (number - 1) * PAGE_SIZE}
        return Listing(rows(connection, _SORTED[choice.order], wanted | place), total, number, pages)
