"""Middleware in front of every response, errors included: checks the token or the host, and adds security headers."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import ipaddress
import re

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send

PUBLIC_PATHS = ("/livez", "/readyz")
"""Probes send no token, and their responses contain no data."""
FAILURE_DELAY, MAX_FAILURE_DELAY = 0.5, 8.0
"""Seconds that the response to a wrong token is delayed: doubled by each one since the last correct token."""
_FORWARDING_HEADERS = frozenset(
    {
        *("forwarded", "via", "x-real-ip", "x-client-ip", "x-cluster-client-ip", "x-original-forwarded-for"),
        *("true-client-ip", "cf-connecting-ip", "fly-client-ip"),
    }
)
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+)(?::[0-9]{1,5})?")
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self';"
    " img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    # Not `no-referrer`: browsers would then send `Origin: null` with our own forms.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class AuthMiddleware:
    def __init__(self, app: Starlette, token: str | None) -> None:
        self.app = app
        self.token = token
        self.failures = 0
        """Wrong tokens since the last correct one."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        denial = None if scope["path"] in PUBLIC_PATHS else await self._deny(scope)
        await (denial or self.app)(scope, receive, send_with_headers)

    async def _deny(self, scope: Scope) -> PlainTextResponse | None:
        """The response to a request that is not allowed; None if it is."""
        headers = Headers(scope=scope)
        if self.token is not None:
            authorization = headers.get("authorization", "")
            if _has_token(authorization, self.token):
                self.failures = 0
                return None
            if authorization:  # not for the first request of a browser, which has no token yet
                await self._delay()
            return PlainTextResponse(
                "This dashboard needs a token: send it as the password, with any user name, or as a bearer token.\n",
                401,
                {"WWW-Authenticate": 'Basic realm="clerk", charset="UTF-8"'},
            )
        # A proxy makes every visitor look local, and may send `localhost` as the host.
        if forwarding := next((name for name in headers if _is_forwarding(name)), None):
            return PlainTextResponse(
                "This dashboard has no token, so it does not answer requests that a proxy forwarded (header"
                f" {forwarding}). Start it with CLERK_DASHBOARD_TOKEN set.\n",
                403,
            )
        # DNS rebinding: a hostile web page could make its own host name resolve to 127.0.0.1 and read the dashboard.
        if is_loopback(_host_name(headers.get("host", ""))):
            return None
        return PlainTextResponse(
            "This dashboard has no token, so it answers only requests to localhost. To allow other host names, start"
            " it with CLERK_DASHBOARD_TOKEN set.\n",
            403,
        )

    async def _delay(self) -> None:
        """Makes guessing slow. A correct token is never delayed, so nobody can lock others out."""
        delay = min(FAILURE_DELAY * 2 ** min(self.failures, 10), MAX_FAILURE_DELAY)
        self.failures += 1
        await asyncio.sleep(delay)


def _is_forwarding(header: str) -> bool:
    return header in _FORWARDING_HEADERS or header.startswith("x-forwarded")


def _host_name(header: str) -> str:
    """The Host header without its port; empty if it is malformed."""
    match = _HOST.fullmatch(header)
    return match[1].strip("[]") if match else ""


def user_name(authorization: str) -> str:
    """The user name of Basic authentication, or an empty string."""
    return _basic_credentials(authorization)[0].decode(errors="replace")


def _has_token(authorization: str, token: str) -> bool:
    scheme, _, credentials = authorization.partition(" ")
    given = credentials.strip().encode("latin-1")  # as Starlette decoded it: these are the bytes that were sent
    if scheme.lower() == "basic":
        given = _basic_credentials(authorization)[1]
    return scheme.lower() in ("basic", "bearer") and hmac.compare_digest(given, token.encode())


def _basic_credentials(authorization: str) -> tuple[bytes, bytes]:
    """User and password of Basic authentication; empty if there are none. A token is never empty."""
    scheme, _, credentials = authorization.partition(" ")
    if scheme.lower() != "basic":
        return b"", b""
    try:
        user, _, password = base64.b64decode(credentials.strip().encode("latin-1"), validate=True).partition(b":")
    except binascii.Error:
        return b"", b""
    return user, password
