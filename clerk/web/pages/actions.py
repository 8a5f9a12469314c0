"""Asks before an operator's move is made, and makes it. Only there with `clerk dashboard --allow-actions`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from urllib.parse import parse_qsl, urlencode

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from clerk.errors import ClerkError, PipelineError, SiteNotFound, UnknownStage
from clerk.web.action_executor import ActionExecutor, request_user
from clerk.web.actions import ACTIONS, ActionRequest, NotAnAction
from clerk.web.confirmation import NotConfirmed, new_visitor
from clerk.web.rendering import page
from clerk.web.request_context import DONE

logger = logging.getLogger(__name__)

_FORM_AT_MOST = 10_000
_TOKEN = "confirmation"  # noqa: S105 (a field's name)
_SAME = ("same-origin", "none")
"""What Sec-Fetch-Site says of a request from our own pages, and of an address that somebody typed."""


def confirm(request: Request) -> Response:
    """Says what would happen. Changes nothing, however it was reached."""
    if request.headers.get("sec-fetch-site", "none") not in _SAME:
        raise HTTPException(403, "Another site led here. Actions begin on the pages of the dashboard.")
    asked, who, actor = _asked(request, request.query_params), request_user(request), _actor(request)
    try:
        outcome = actor.preview(asked, who)
    except (ClerkError, NotAnAction) as error:
        return _refused(asked, error)
    cookie = _cookie(request)
    visitor = request.cookies.get(cookie) or new_visitor()
    token = actor.confirmations.issue(visitor, who, asked.action, urlencode(asked.fields))
    response = page(
        "confirm.html",
        move=ACTIONS[asked.action],
        asked=asked,
        outcome=outcome,
        who=who,
        hidden=asked.fields | {_TOKEN: token},
    )
    response.set_cookie(cookie, visitor, path="/", httponly=True, samesite="strict", secure=_by_https(request))
    return response


async def perform(request: Request) -> Response:
    _refuse_foreign(request)
    return await run_in_threadpool(_perform, request, await _form(request))


def _perform(request: Request, form: dict[str, str]) -> Response:
    asked, who, actor = _asked(request, form), request_user(request), _actor(request)
    visitor = request.cookies.get(_cookie(request), "")
    try:
        nonce = actor.confirmations.accept(form.get(_TOKEN, ""), visitor, who, asked.action, urlencode(asked.fields))
    except NotConfirmed:
        return page(
            "problem.html",
            403,
            what="Not confirmed",
            why="The confirmation is missing, too old, or not from this browser. Nothing was done.",
            again=f"/actions/{asked.action}?{urlencode(asked.fields)}",
        )
    if actor.confirmations.claim(nonce):
        try:
            said = actor.do(asked, who).said()
        except (ClerkError, NotAnAction) as error:
            actor.confirmations.tell(nonce, f"This could not be done: {error}")
            return _refused(asked, error)
        logger.info("%s: %s (%s)", who, said, asked.action)
        actor.confirmations.tell(nonce, said)
    return RedirectResponse(f"{asked.back}?{urlencode({DONE: nonce})}", 303)


def _asked(request: Request, given: Mapping[str, str]) -> ActionRequest:
    try:
        return ActionRequest.of(request.path_params["action"], given)
    except NotAnAction as error:
        raise HTTPException(404, str(error)) from error


def _actor(request: Request) -> ActionExecutor:
    actor = request.app.state.actor
    assert isinstance(actor, ActionExecutor)
    return actor


def _refused(asked: ActionRequest, error: Exception) -> Response:
    match error:
        case NotAnAction() | SiteNotFound() | UnknownStage():
            status = 404
        case PipelineError():
            status = 409
        case _:
            status = 503
            logger.warning("%s: %s", asked.action, error)
    return page("problem.html", status, what="This cannot be done", why=str(error))


def _refuse_foreign(request: Request) -> None:
    """A form on another page would bring our cookie along in a browser that knows no SameSite."""
    origin = request.headers.get("origin")
    if request.headers.get("sec-fetch-site", "same-origin") != "same-origin" or (
        # The scheme may differ: what speaks HTTPS stands in front of us.
        origin is not None and origin.partition("://")[2] != request.headers.get("host")
    ):
        raise HTTPException(403, "That came from another site. Nothing was done.")


def _by_https(request: Request) -> bool:
    """Also by what stands in front of us. Whoever makes the header up only locks out themselves."""
    return request.url.scheme == "https" or request.headers.get("x-forwarded-proto", "") == "https"


def _cookie(request: Request) -> str:
    """With that prefix browsers take it from nobody but us, over HTTPS only."""
    return "__Host-clerk-visitor" if _by_https(request) else "clerk-visitor"


async def _form(request: Request) -> dict[str, str]:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _FORM_AT_MOST:
            raise HTTPException(413, "That is more than a form of the dashboard holds.")
    try:
        return dict(parse_qsl(body.decode(), strict_parsing=True, max_num_fields=20))
    except ValueError as error:
        raise HTTPException(400, "That is not a form of the dashboard.") from error


ROUTES = [
    Route("/actions/{action}", confirm, methods=["GET"]),
    Route("/actions/{action}", perform, methods=["POST"]),
]
