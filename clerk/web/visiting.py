"""Tells the templates about the visit: whether actions are offered, and what the last one came to."""

from __future__ import annotations

from urllib.parse import parse_qs

from starlette.types import ASGIApp, Receive, Scope, Send

from clerk.web.confirming import Confirmations
from clerk.web.rendering import Visit, visit

DONE = "done"
"""In a query: the confirmation whose message the page is to show. The text itself never stands in an address."""


class Visiting:
    """Only around a dashboard that acts; without it the templates see a visit that may not."""

    def __init__(self, app: ASGIApp, confirmations: Confirmations) -> None:
        self.app = app
        self.confirmations = confirmations

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        done = parse_qs(scope.get("query_string", b"").decode("latin-1")).get(DONE, [""])[0]
        before = visit.set(Visit(may_act=True, notice=self.confirmations.told(done)))
        try:
            await self.app(scope, receive, send)
        finally:
            visit.reset(before)
