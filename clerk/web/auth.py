"""Who may see the dashboard, and what a browser may do with its pages. Stands in front of everything, errors too."""

from __future__ import annotations

import base64
import binascii
import hmac
import ipaddress
import re

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send

OPEN_TO_ALL = ("/livez", "/readyz")
"""Probes carry no token, and learn nothing but whether it works."""
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+)(?::[0-9]{1,5})?")
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self';"
    " img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    # Other hosts learn nothing. Not `no-referrer`: browsers would then hide from us too where a form was posted from.
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

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        refusal = None if scope["path"] in OPEN_TO_ALL else self._refusal(scope)
        await (refusal or self.app)(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> PlainTextResponse | None:
        if self.token is not None:
            if _shows(Headers(scope=scope).get("authorization", ""), self.token):
                return None
            return PlainTextResponse(
                "This dashboard wants its token: as the password, with any user name, or as a bearer token.\n",
                401,
                {"WWW-Authenticate": 'Basic realm="clerk", charset="UTF-8"'},
            )
        # Without a token, a hostile web page could make its own host name point at 127.0.0.1 and read along.
        if is_loopback(_host_name(Headers(scope=scope).get("host", ""))):
            return None
        return PlainTextResponse(
            "This dashboard has no token, so it answers to localhost only: start it with CLERK_DASHBOARD_TOKEN set.\n",
            403,
        )


def _host_name(header: str) -> str:
    """Without its port; nothing if it is not written as a host's name is, for then it is nobody's."""
    found = _HOST.fullmatch(header)
    return found[1].strip("[]") if found else ""


def user_name(authorization: str) -> str:
    """The name that came along with the token, or nothing."""
    return _user_and_password(authorization)[0].decode(errors="replace")


def _shows(authorization: str, token: str) -> bool:
    scheme, _, given = authorization.partition(" ")
    shown = given.strip().encode("latin-1")  # as Starlette decoded it: these are the bytes that were sent
    if scheme.lower() == "basic":
        shown = _user_and_password(authorization)[1]
    return scheme.lower() in ("basic", "bearer") and hmac.compare_digest(shown, token.encode())


def _user_and_password(authorization: str) -> tuple[bytes, bytes]:
    """Of Basic authentication; empty where there is none. No token is empty, so that never opens anything."""
    scheme, _, given = authorization.partition(" ")
    if scheme.lower() != "basic":
        return b"", b""
    try:
        user, _, password = base64.b64decode(given.strip().encode("latin-1"), validate=True).partition(b":")
    except binascii.Error:
        return b"", b""
    return user, password
