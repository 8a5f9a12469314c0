"""Forms of the dashboard: reading them, and the checks that a form comes from a page that this browser was shown."""

from __future__ import annotations

from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from clerk.web.confirmation import new_browser_id

TOKEN_FIELD = "confirmation"  # noqa: S105 (a field's name)
_MAX_FORM_BYTES = 19_000


def reject_cross_origin(request: Request) -> None:
    """Browsers without SameSite would send our cookie with a form of another website."""
    origin = request.headers.get("origin")
    if request.headers.get("sec-fetch-site", "same-origin") != "same-origin" or (
        # The scheme may differ: a reverse proxy may terminate HTTPS.
        origin is not None and origin.partition("://")[2] != request.headers.get("host")
    ):
        raise HTTPException(403, "This request came from another website. Nothing was changed.")


def is_https(request: Request) -> bool:
    """Also behind a reverse proxy. A client that forges the header only makes its own cookie unusable."""
    return request.url.scheme == "https" or request.headers.get("x-forwarded-proto", "") == "https"


def cookie_name(request: Request) -> str:
    """Browsers accept the prefix `__Host-` only from this host itself, over HTTPS."""
    return "__Host-clerk-browser" if is_https(request) else "clerk-browser"


async def read_form(request: Request) -> dict[str, str]:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MAX_FORM_BYTES:
            raise HTTPException(413, f"The form is larger than {_MAX_FORM_BYTES:,} bytes.")
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, strict_parsing=True, max_num_fields=30))
    except ValueError as error:
        raise HTTPException(400, "The request body is not a valid form.") from error


def browser_id(request: Request) -> str:
    """The identity of this browser, from its cookie, or a new one."""
    return request.cookies.get(cookie_name(request)) or new_browser_id()


def set_browser_id(request: Request, response: Response, identity: str) -> None:
    response.set_cookie(
        cookie_name(request), identity, path="/", httponly=True, samesite="strict", secure=is_https(request)
    )
