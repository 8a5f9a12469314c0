"""Confirmation page and execution of operator actions. Exists only with `clerk dashboard --allow-actions`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from urllib.parse import parse_qsl, urlencode

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from clerk.archive.query import InvalidQuery
from clerk.errors import ClerkError, PipelineError, SiteNotFound, UnknownStage
from clerk.saved_searches.repository import SavedSearchNotFound
from clerk.saved_searches.validation import InvalidSavedSearch
from clerk.web.action_executor import ActionExecutor, request_user
from clerk.web.actions import ACTIONS, ActionRequest, InvalidAction
from clerk.web.confirmation import InvalidToken, new_browser_id
from clerk.web.rendering import render
from clerk.web.request_context import RESULT_PARAM

logger = logging.getLogger(__name__)

_MAX_FORM_BYTES = 10_000
_TOKEN_FIELD = "confirmation"  # noqa: S105 (a field's name)
_TRUSTED_FETCH_SITES = ("same-origin", "none")
"""Values of Sec-Fetch-Site for a request from our own pages, and for a URL that a person typed."""


def confirm(request: Request) -> Response:
    """Show what the action would do. Changes nothing."""
    if request.headers.get("sec-fetch-site", "none") not in _TRUSTED_FETCH_SITES:
        raise HTTPException(403, "This link came from another website. Start actions on the dashboard's own pages.")
    action, user, executor = _parse(request, request.query_params), request_user(request), _executor(request)
    try:
        result = executor.preview(action, user)
    except (ClerkError, InvalidAction) as error:
        return _show_error(action, error)
    cookie = _cookie_name(request)
    browser_id = request.cookies.get(cookie) or new_browser_id()
    token = executor.tokens.issue(browser_id, user, action.action, urlencode(action.fields))
    response = render(
        "confirm.html",
        action=ACTIONS[action.action],
        request=action,
        result=result,
        user=user,
        hidden_fields=action.fields | {_TOKEN_FIELD: token},
    )
    response.set_cookie(cookie, browser_id, path="/", httponly=True, samesite="strict", secure=_is_https(request))
    return response


async def execute(request: Request) -> Response:
    _reject_cross_origin(request)
    return await run_in_threadpool(_execute, request, await _read_form(request))


def _execute(request: Request, form: dict[str, str]) -> Response:
    action, user, executor = _parse(request, form), request_user(request), _executor(request)
    browser_id = request.cookies.get(_cookie_name(request), "")
    token = form.get(_TOKEN_FIELD, "")
    try:
        nonce = executor.tokens.verify(token, browser_id, user, action.action, urlencode(action.fields))
    except InvalidToken:
        return render(
            "error.html",
            403,
            title="Not confirmed",
            message="The confirmation is missing, expired, or from another browser. Nothing was changed.",
            retry_url=f"/actions/{action.action}?{urlencode(action.fields)}",
        )
    if executor.tokens.claim(nonce):
        try:
            message = executor.execute(action, user).message
        except (ClerkError, InvalidAction) as error:
            executor.tokens.set_result(nonce, f"The action failed: {error}")
            return _show_error(action, error)
        logger.info("%s by %s: %s", action.action, user, message)
        executor.tokens.set_result(nonce, message)
    return RedirectResponse(f"{action.result_url}?{urlencode({RESULT_PARAM: nonce})}", 303)


def _parse(request: Request, values: Mapping[str, str]) -> ActionRequest:
    try:
        return ActionRequest.parse(request.path_params["action"], values)
    except InvalidAction as error:
        raise HTTPException(404, str(error)) from error


def _executor(request: Request) -> ActionExecutor:
    executor = request.app.state.executor
    assert isinstance(executor, ActionExecutor)
    return executor


def _show_error(action: ActionRequest, error: Exception) -> Response:
    match error:
        case InvalidAction() | SiteNotFound() | UnknownStage():
            status = 404
        case PipelineError():
            status = 409
        case SavedSearchNotFound():
            status = 404
        case InvalidSavedSearch() | InvalidQuery():
            status = 400
        case _:
            status = 503
            logger.warning("%s failed: %s", action.action, error)
    return render("error.html", status, title="The action is not possible", message=str(error))


def _reject_cross_origin(request: Request) -> None:
    """Browsers without SameSite would send our cookie with a form of another website."""
    origin = request.headers.get("origin")
    if request.headers.get("sec-fetch-site", "same-origin") != "same-origin" or (
        # The scheme may differ: a reverse proxy may terminate HTTPS.
        origin is not None and origin.partition("://")[2] != request.headers.get("host")
    ):
        raise HTTPException(403, "This request came from another website. Nothing was changed.")


def _is_https(request: Request) -> bool:
    """Also behind a reverse proxy. A client that forges the header only makes its own cookie unusable."""
    return request.url.scheme == "https" or request.headers.get("x-forwarded-proto", "") == "https"


def _cookie_name(request: Request) -> str:
    """Browsers accept the prefix `__Host-` only from this host itself, over HTTPS."""
    return "__Host-clerk-browser" if _is_https(request) else "clerk-browser"


async def _read_form(request: Request) -> dict[str, str]:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MAX_FORM_BYTES:
            raise HTTPException(413, f"The form is larger than {_MAX_FORM_BYTES:,} bytes.")
    try:
        return dict(parse_qsl(body.decode(), strict_parsing=True, max_num_fields=20))
    except ValueError as error:
        raise HTTPException(400, "The request body is not a valid form.") from error


ROUTES = [
    Route("/actions/{action}", confirm, methods=["GET"]),
    Route("/actions/{action}", execute, methods=["POST"]),
]
