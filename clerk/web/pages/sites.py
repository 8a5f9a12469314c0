"""All sites: filtered, sorted and paginated; by default those that need attention come first."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import LiteralString

from psycopg import sql
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from clerk.db.sites import OUTCOMES
from clerk.pipeline.engine import STAGES
from clerk.web.db import ReadOnlyPool, SampleQuery, fetch_rows
from clerk.web.paging import PAGE_SIZE, ResultPage, clamp_page, link_to, parse_page, parse_text
from clerk.web.rendering import render

ONLY = {
    "stuck": "stuck",
    "failed": "last run failed",
    "failing": "with failed documents",
    "paused": "paused",
    "running": "with an active run",
}
_DEFAULT_ORDER = "attention"

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
                        when 'running' then phase is not null
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
    _DEFAULT_ORDER: "stuck desc, coalesce(outcome = 'failed', false) desc, failed > 0 desc, phase is null, subdomain",
    "site": "subdomain",
    "-site": "subdomain desc",
    "stage": "current_stage nulls first, subdomain",
    "-stage": "current_stage desc nulls last, subdomain",
    "failed": "failed, subdomain",
    "-failed": "failed desc, subdomain",
    "updated": "updated_at nulls first, subdomain",
    "-updated": "updated_at desc nulls last, subdomain",
}
_SITES_BY_ORDER = {
    key: sql.SQL(_SITES).format(matching=_MATCHING, order=sql.SQL(order)) for key, order in _ORDERS.items()
}
QUERIES: list[SampleQuery] = [
    (query, {"text": "", "stage": "", "outcome": "", "only": "", "limit": 1, "offset": 0})
    for query in (_COUNT, *_SITES_BY_ORDER.values())
]


@dataclass(frozen=True)
class SiteParams:
    """Query parameters of the page. Invalid values are replaced by the defaults."""

    text: str = ""
    stage: str = ""
    outcome: str = ""
    only: str = ""
    order: str = _DEFAULT_ORDER
    page: int = 1

    @classmethod
    def parse(cls, query: QueryParams) -> SiteParams:
        def choice(name: str, allowed: Container[str], default: str = "") -> str:
            return value if (value := query.get(name, "")) in allowed else default

        return cls(
            parse_text(query.get("text", "")),
            choice("stage", (*STAGES, "completed", "never run")),
            choice("outcome", OUTCOMES),
            choice("only", ONLY),
            choice("order", _ORDERS, _DEFAULT_ORDER),
            parse_page(query.get("page", "")),
        )

    @property
    def is_active(self) -> bool:
        return bool(self.text or self.stage or self.outcome or self.only)


def show(request: Request) -> Response:
    params = SiteParams.parse(request.query_params)
    return render(
        "sites.html",
        params=params,
        results=read_sites(request.app.state.pool, params),
        stages=STAGES,
        outcomes=OUTCOMES,
        only=ONLY,
        link=link_to("/sites", params),
    )


def read_sites(pool: ReadOnlyPool, params: SiteParams) -> ResultPage:
    values = {name: getattr(params, name) for name in ("text", "stage", "outcome", "only")}
    with pool.transaction() as connection:
        total = fetch_rows(connection, _COUNT, values)[0]["sites"]
        page, pages = clamp_page(total, params.page)
        limits = {"limit": PAGE_SIZE, "offset": (page - 1) * PAGE_SIZE}
        rows = fetch_rows(connection, _SITES_BY_ORDER[params.order], values | limits)
        return ResultPage(rows, total, page, pages)
