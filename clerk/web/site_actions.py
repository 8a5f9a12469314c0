"""Operator actions that add, edit and remove a site, with the validation of `clerk site`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import psycopg

from clerk import config
from clerk.db.audit import log_action
from clerk.db.sites import EDITABLE, add_site, edit_site, remove_site, require_site
from clerk.documents.storage import SiteStorage
from clerk.errors import PluginError
from clerk.humanize import pluralize
from clerk.pipeline import engine
from clerk.plugins import manager
from clerk.sources.redaction import Redaction
from clerk.sources.site_validation import InvalidSite, check_subdomain, validate_site
from clerk.web.action_request import ActionRequest, ActionResult, InvalidAction

Connection = psycopg.Connection[Any]


def add(connection: Connection, request: ActionRequest, user: str, dry_run: bool) -> ActionResult:
    plugins = manager.load(config.load())
    values = {"name": request.site, **_columns(request)}
    validated = validate_site(plugins, request.site, values, {})
    with connection.transaction(force_rollback=dry_run):
        if not add_site(connection, request.site, validated.values):
            raise InvalidSite(f"there is already a site {request.site}", "choose another short name", "subdomain")
        run_id = engine.start_run(connection, request.site, "new site")
        log_action(connection, "add site", request.site, run_id, scraper=validated.values.get("scraper"))
    problem = "" if dry_run else _call_post_create(plugins, request.site)
    return ActionResult(
        f"The site {request.site} will be added, and its first run started.",
        f"The site {request.site} was added. Its first run, {run_id}, is waiting for a worker.{problem}",
        cancel_url="/sites/new",
    )


def _call_post_create(plugins: manager.Plugins, subdomain: str) -> str:
    """What a plugin failed with. The site stays added."""
    try:
        list(plugins.call_each("post_create", subdomain=subdomain))
    except PluginError as error:
        return f" But {error}."
    return ""


def edit(connection: Connection, request: ActionRequest, user: str, dry_run: bool) -> ActionResult:
    before = require_site(connection, request.site)
    old = {column: getattr(before, column) for column in EDITABLE}
    given = _columns(request)
    if "extra" in given:
        given["extra"] = restore_secrets(given["extra"], before.extra)
    validated = validate_site(manager.load(config.load()), request.site, given, old)
    changed = [column for column, value in validated.values.items() if not _is_same(column, old[column], value)]
    if not changed:
        return ActionResult(f"{request.site} has these values already.", changes=False)
    with connection.transaction(force_rollback=dry_run):
        edit_site(connection, request.site, {column: validated.values[column] for column in changed})
        log_action(connection, "edit site", request.site, None, columns=changed)
    return ActionResult(
        f"{pluralize(len(changed), 'value')} of {request.site} will be changed.",
        f"{request.site} was changed: {', '.join(changed)}.",
        [
            *(f"{column}: {_shown(column, old[column])} → {_shown(column, validated.values[column])}"
              for column in changed),
            "The next run uses the new values; an active run is not affected.",
        ],
        cancel_url=f"/sites/{request.site}/edit",
    )  # fmt: skip


def remove(connection: Connection, request: ActionRequest, user: str, dry_run: bool) -> ActionResult:
    require_site(connection, check_subdomain(request.site))
    folder = SiteStorage(config.load().storage_dir, request.site).folder
    with connection.transaction(force_rollback=dry_run):
        cancelled = engine.cancel_run(connection, request.site, "the site is being removed")
        counts = remove_site(connection, request.site)
        log_action(connection, "remove site", request.site, None, **counts)
    documents, runs = pluralize(counts["documents"], "document"), pluralize(counts["runs"], "run")
    files = f"The files in {folder} are kept" if folder.is_dir() else "It has no files on this machine"
    return ActionResult(
        f"{request.site} will be removed.",
        f"{request.site} was removed with {documents}.",
        [
            f"Deleted: its settings and its history, with the record of {documents} and {runs}.",
            *([f"Its run {cancelled} is cancelled."] if cancelled is not None else []),
            f"{files}, and the published archive stays online.",
            f"`clerk site remove {request.site} --files` in a terminal deletes the files as well.",
            "This cannot be undone. If the site is added again, its documents are fetched and read again.",
        ],
        cancel_url=f"/sites/{request.site}",
    )


def redacted_extra(extra: str | None) -> str:
    """`extra` for the form, without secrets. Legacy text that is not JSON is not shown: it may contain some."""
    try:
        values = json.loads(extra or "{}")
    except ValueError:
        return ""
    return json.dumps(Redaction().settings(values), ensure_ascii=False, indent=2) if values else ""


def restore_secrets(given: Any, stored: str | None) -> Any:
    """Replace what `redacted_extra` shows in place of secrets by the stored values."""
    try:
        new, old = json.loads(given or "{}"), json.loads(stored or "{}")
    except ValueError:
        return given
    return json.dumps(_restore(new, old), ensure_ascii=False) if new else ""


def _restore(new: Any, old: Any, name: str = "") -> Any:
    if isinstance(new, dict) and isinstance(old, dict):
        return {key: _restore(value, old.get(key), str(key)) for key, value in new.items()}
    if isinstance(new, list) and isinstance(old, list) and len(new) == len(old):
        return [_restore(*pair, name) for pair in zip(new, old, strict=True)]
    return old if old is not None and new == Redaction().settings(old, name) else new


def _columns(request: ActionRequest) -> dict[str, Any]:
    try:
        values = json.loads(request.columns or "{}")
    except ValueError as error:
        raise InvalidAction("The field columns is not JSON.") from error
    if not isinstance(values, dict) or not set(values) <= set(EDITABLE):
        raise InvalidAction(f"The field columns is not an object with {', '.join(EDITABLE)}.")
    return values


def _is_same(column: str, old: Any, new: Any) -> bool:
    if column != "extra" or not old or not new:
        return bool((old or None) == (new or None))
    try:
        return bool(json.loads(old) == json.loads(new))
    except ValueError:
        return False


def _shown(column: str, value: Any) -> str:
    if column == "extra":
        return redacted_extra(value).replace("\n", "") or "empty"
    return str(value) if value not in (None, "") else "empty"


def describe_columns(values: Mapping[str, Any]) -> list[str]:
    """The values of a new site, without secrets."""
    return [
        f"{column.capitalize().replace('_', ' ')}: {_shown(column, value)}"
        for column, value in values.items()
        if value not in (None, "")
    ]
