"""Tells the templates about the visit: whether actions are offered, and what the last one came to."""

from __future__ import annotations

from urllib.parse import parse_qs

from starlette.types import ASGIApp, Receive, Scope, Send

from clerk.web.confirmation import ConfirmationTokens
from clerk.web.rendering import RequestContext, request_context

DONE = "done"
"""In a query: the confirmation whose message the page is to show. The text itself never stands in an address."""


class RequestContextMiddleware:
    """Only around a dashboard that acts; without it the templates see a visit that may not."""

    def __init__(self, app: ASGIApp, confirmations: ConfirmationTokens) -> None:
        self.app = app
        self.confirmations = confirmations

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        done = parse_qs(scope.get("query_string", b"").decode("latin-1")).get(DONE, [""])[0]
        before = request_context.set(RequestContext(may_act=True, notice=self.confirmations.told(done)))
        try:
            await self.app(scope, receive, send)
        finally:
            request_context.reset(before)
