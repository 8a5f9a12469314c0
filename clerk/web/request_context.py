"""Middleware that tells the templates whether actions are allowed, and the result of the last action."""

from __future__ import annotations

from urllib.parse import parse_qs

from starlette.types import ASGIApp, Receive, Scope, Send

from clerk.web.confirmation import ConfirmationTokens
from clerk.web.rendering import RequestContext, request_context

RESULT_PARAM = "done"
"""Query parameter with the nonce of the action whose result the page shows. The text itself is never in a URL."""


class RequestContextMiddleware:
    """Installed only with `--allow-actions`; without it, templates see the default context, which allows none."""

    def __init__(self, app: ASGIApp, tokens: ConfirmationTokens) -> None:
        self.app = app
        self.tokens = tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        nonce = parse_qs(scope.get("query_string", b"").decode("latin-1")).get(RESULT_PARAM, [""])[0]
        reset_token = request_context.set(RequestContext(actions_allowed=True, notice=self.tokens.result(nonce)))
        try:
            await self.app(scope, receive, send)
        finally:
            request_context.reset(reset_token)
