"""Forms to add and to edit a site. What they send is confirmed like every other action.

Adding looks at the folder or address first, in a thread: the requests take time, and must not stop other pages.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from clerk.db.cadence import WORDS as CADENCES
from clerk.db.sites import EDITABLE, SiteRow, read_site, require_site
from clerk.errors import ClerkError
from clerk.sources.fetcher import Site
from clerk.sources.site_validation import InvalidSite, check_subdomain, invalid_columns, subdomain_of
from clerk.sources.vendors import BUILT_IN
from clerk.web import forms, site_lookup
from clerk.web.action_executor import ActionExecutor, request_user
from clerk.web.action_request import ActionRequest, InvalidAction
from clerk.web.confirmation import InvalidToken
from clerk.web.pages.actions import executor_of, show_confirmation
from clerk.web.rendering import render, request_context
from clerk.web.site_actions import describe_columns, redacted_extra
from clerk.web.site_lookup import LookupFailed

_FORM = "site-form"
_EXPIRED = "The form has expired, or is from another browser. Send it again."
Values = dict[str, str]
Errors = dict[str, str]


def new(request: Request) -> Response:
    """Without --allow-actions, the page says how to add a site."""
    if not request_context.get().actions_allowed:
        return render("site_form.html", 403, site=None, is_allowed=False)
    return _show(request, None, {name: request.query_params.get(name, "") for name in ("source", "subdomain")}, {})


async def add(request: Request) -> Response:
    forms.reject_cross_origin(request)
    values = _clean(await forms.read_form(request))
    slots = request.app.state.lookup_slots
    if slots.locked():
        message = "Other addresses are being looked at. Try again in a minute."
        return _show(request, None, values, {"source": message}, 503)
    async with slots:
        return await run_in_threadpool(_add, request, values)


def _add(request: Request, values: Values) -> Response:
    values["subdomain"] = values["subdomain"] or subdomain_of(values["name"])
    errors = _check_token(request, values) | _check(values)
    if not values["source"] and not values["scraper"]:
        errors.setdefault("source", "Give a folder on this machine or the address of a web page.")
    if errors:
        return _show(request, None, values, errors, 400)
    executor, user = executor_of(request), request_user(request)
    columns: dict[str, Any] = {name: values[name] for name in EDITABLE if values[name]}
    try:
        details = _look(executor, user, values, columns) if values["source"] else []
    except LookupFailed as error:
        return _show(request, None, values, {error.field: str(error)}, 400)
    details += describe_columns({name: value for name, value in columns.items() if name not in ("scraper", "extra")})
    return _confirm(request, "add-site", values, columns, details)


def _look(executor: ActionExecutor, user: str, values: Values, columns: dict[str, Any]) -> list[str]:
    """Find the source, put its fetcher and settings into the columns, and return what was found, in words."""
    year = int(values["start_year"]) if values["start_year"] else None
    site = Site(values["subdomain"], values["name"] or values["subdomain"], {}, year)
    extra = json.loads(values["extra"]) if values["extra"] else {}
    with executor.connection(user) as connection:
        if read_site(connection, site.subdomain) is not None:
            raise LookupFailed("subdomain", f"There is already a site {site.subdomain}. Choose another short name.")
        found = site_lookup.find_source(connection, site, values["source"], values["scraper"] or None, extra)
    columns |= {"scraper": found.scraper, "extra": json.dumps(found.extra, ensure_ascii=False)}
    return found.details


def edit(request: Request) -> Response:
    site = _read(request)
    return _show(request, site, _shown(site), {})


def _shown(site: SiteRow) -> Values:
    values = {name: str(value) for name in EDITABLE if (value := getattr(site, name)) is not None}
    return values | {"extra": redacted_extra(site.extra)}


async def save(request: Request) -> Response:
    forms.reject_cross_origin(request)
    return await run_in_threadpool(_save, request, _clean(await forms.read_form(request)))


def _save(request: Request, values: Values) -> Response:
    site = _read(request)
    values["subdomain"] = site.subdomain
    errors = _check_token(request, values) | _check(values)
    if errors:
        return _show(request, site, values, errors, 400)
    shown = _shown(site)
    columns = {name: values[name] for name in EDITABLE if values[name] != shown.get(name, "")}
    return _confirm(request, "edit-site", values, columns, [], site)


def _confirm(
    request: Request,
    action: str,
    values: Values,
    columns: Mapping[str, Any],
    details: list[str],
    site: SiteRow | None = None,
) -> Response:
    """The confirmation, or the form again if the action is not possible."""
    fields = {"site": values["subdomain"], "columns": json.dumps(columns, ensure_ascii=False)}
    asked, user, executor = ActionRequest.parse(action, fields), request_user(request), executor_of(request)
    try:
        result = executor.preview(asked, user)
    except InvalidSite as error:
        message = f"{error.what}: {error.remedy}."
        return _show(request, site, values, {error.column or "form": message}, 400)
    except (ClerkError, InvalidAction) as error:
        return _show(request, site, values, {"form": str(error)}, 503)
    return show_confirmation(request, executor, asked, user, replace(result, details=[*details, *result.details]))


def _show(
    request: Request, site: SiteRow | None, values: Mapping[str, str], errors: Errors, status: int = 200
) -> Response:
    executor, identity = executor_of(request), forms.browser_id(request)
    names = ("source", "subdomain", *EDITABLE)
    response = render(
        "site_form.html",
        status,
        site=site,
        is_allowed=True,
        values={name: values.get(name, "") for name in names},
        errors=errors,
        fetchers=sorted(BUILT_IN),
        cadences=CADENCES,
        token=executor.tokens.issue(identity, request_user(request), _FORM),
        token_field=forms.TOKEN_FIELD,
        seconds=round(site_lookup.DETECTION_SECONDS + site_lookup.LISTING_SECONDS),
    )
    forms.set_browser_id(request, response, identity)
    return response


def _read(request: Request) -> SiteRow:
    with executor_of(request).connection(request_user(request)) as connection:
        return require_site(connection, request.path_params["subdomain"].replace("\0", ""))


def _clean(form: Mapping[str, str]) -> Values:
    names = (forms.TOKEN_FIELD, "source", "subdomain", *EDITABLE)
    return {name: form.get(name, "").replace("\0", "").replace("\r\n", "\n").strip() for name in names}


def _check_token(request: Request, values: Values) -> Errors:
    identity = request.cookies.get(forms.cookie_name(request), "")
    try:
        executor_of(request).tokens.verify(values[forms.TOKEN_FIELD], identity, request_user(request), _FORM)
    except InvalidToken:
        return {"form": _EXPIRED}
    return {}


def _check(values: Values) -> Errors:
    """The fields with an invalid value, each with what to do."""
    errors = {name: f"{remedy[:1].upper()}{remedy[1:]}." for name, remedy in _invalid(values).items()}
    if not values["subdomain"]:
        errors["subdomain"] = "Give a short name, such as springfield."
    return errors


def _invalid(values: Values) -> Errors:
    problems = invalid_columns({name: values[name] for name in EDITABLE})
    try:
        if values["subdomain"]:
            check_subdomain(values["subdomain"])
    except InvalidSite as error:
        problems["subdomain"] = error.remedy
    return problems


ROUTES = [
    Route("/sites/new", add, methods=["POST"]),
    Route("/sites/{subdomain:path}/edit", edit, methods=["GET"]),
    Route("/sites/{subdomain:path}/edit", save, methods=["POST"]),
]
"""Only with --allow-actions."""
