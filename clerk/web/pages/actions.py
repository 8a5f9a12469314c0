"""Confirmation page and execution of operator actions. Exists only with `clerk dashboard --allow-actions`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from urllib.parse import urlencode

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from clerk.archive.query import InvalidQuery
from clerk.documents.entry_details import InvalidDetails
from clerk.errors import ClerkError, PipelineError, SiteNotFound, UnknownStage
from clerk.saved_searches.repository import SavedSearchNotFound
from clerk.saved_searches.validation import InvalidSavedSearch
from clerk.sources.site_validation import InvalidSite
from clerk.web import forms
from clerk.web.action_executor import ActionExecutor, request_user
from clerk.web.action_request import ActionRequest, ActionResult, InvalidAction
from clerk.web.actions import ACTIONS
from clerk.web.confirmation import InvalidToken
from clerk.web.rendering import render
from clerk.web.request_context import RESULT_PARAM

logger = logging.getLogger(__name__)

_TRUSTED_FETCH_SITES = ("same-origin", "none")
"""Values of Sec-Fetch-Site for a request from our own pages, and for a URL that a person typed."""


def confirm(request: Request) -> Response:
    """Show what the action would do. Changes nothing."""
    if request.headers.get("sec-fetch-site", "none") not in _TRUSTED_FETCH_SITES:
        raise HTTPException(403, "This link came from another website. Start actions on the dashboard's own pages.")
    values = dict(request.query_params)
    if selected := request.query_params.getlist("item"):
        values["items"] = " ".join(selected)
    action, user, executor = _parse(request, values), request_user(request), executor_of(request)
    try:
        result = executor.preview(action, user)
    except (ClerkError, InvalidAction) as error:
        return _show_error(action, error)
    return show_confirmation(request, executor, action, user, result)


def show_confirmation(
    request: Request, executor: ActionExecutor, action: ActionRequest, user: str, result: ActionResult
) -> Response:
    """The page with the effect of an action and a button that executes it, for this browser only."""
    browser_id = forms.browser_id(request)
    token = executor.tokens.issue(browser_id, user, action.action, urlencode(action.fields))
    response = render(
        "confirm.html",
        action=ACTIONS[action.action],
        request=action,
        result=result,
        user=user,
        hidden_fields=action.fields | {forms.TOKEN_FIELD: token},
    )
    forms.set_browser_id(request, response, browser_id)
    return response


async def execute(request: Request) -> Response:
    forms.reject_cross_origin(request)
    return await run_in_threadpool(_execute, request, await forms.read_form(request))


def _execute(request: Request, form: dict[str, str]) -> Response:
    action, user, executor = _parse(request, form), request_user(request), executor_of(request)
    browser_id = request.cookies.get(forms.cookie_name(request), "")
    token = form.get(forms.TOKEN_FIELD, "")
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
    separator = "&" if "?" in action.result_url else "?"
    return RedirectResponse(f"{action.result_url}{separator}{urlencode({RESULT_PARAM: nonce})}", 303)


def _parse(request: Request, values: Mapping[str, str]) -> ActionRequest:
    name = request.path_params["action"]
    try:
        if name not in ACTIONS:
            raise InvalidAction(f"There is no action {name}.")
        return ActionRequest.parse(name, values)
    except InvalidAction as error:
        raise HTTPException(404, str(error)) from error


def executor_of(request: Request) -> ActionExecutor:
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
        case InvalidSavedSearch() | InvalidQuery() | InvalidSite() | InvalidDetails():
            status = 400
        case _:
            status = 503
            logger.warning("%s failed: %s", action.action, error)
    return render("error.html", status, title="The action is not possible", message=str(error))


ROUTES = [
    Route("/actions/{action}", confirm, methods=["GET"]),
    Route("/actions/{action}", execute, methods=["POST"]),
]
