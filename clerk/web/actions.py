"""The operator's moves as the dashboard offers them: what each would do, in words, and doing it.

They call what the command line calls. What they say beforehand was done and taken back, never guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import psycopg

from clerk.db.audit import log_action
from clerk.db.sites import site_unknown
from clerk.humanize import join_words, pluralize
from clerk.monitoring.failures import Group, retry_group
from clerk.monitoring.overview import retryable_units
from clerk.pipeline import engine
from clerk.pipeline.engine import QUEUES, STAGES

Connection = psycopg.Connection[Any]

_SHOWN_AT_MOST = 20


class NotAnAction(Exception):
    """No such action, or one that lacks what it is about."""


@dataclass(frozen=True)
class ActionRequest:
    """An action as an address or a form names it. Anything may stand there."""

    action: str
    site: str = ""
    stage: str = ""
    error: str = ""
    document: str = ""
    queue: str = ""

    @classmethod
    def of(cls, action: str, given: Mapping[str, str]) -> ActionRequest:
        if action not in ACTIONS:
            raise NotAnAction(f"There is no action {action}.")
        asked = cls(action, **{name: given.get(name, "").replace("\0", "") for name in _FIELDS})
        if asked.stage and asked.stage not in STAGES:
            raise NotAnAction(f"There is no stage {asked.stage}.")
        if asked.queue and asked.queue not in QUEUES:
            raise NotAnAction(f"There is no queue {asked.queue}.")
        if asked.document and not (asked.document.isascii() and asked.document.isdigit() and len(asked.document) < 19):
            raise NotAnAction(f"There is no document {asked.document}.")
        return asked

    @property
    def fields(self) -> dict[str, str]:
        """What it is about, without what is not said."""
        return {name: value for name in _FIELDS if (value := getattr(self, name))}

    @property
    def back(self) -> str:
        """The page that shows what came of it."""
        if self.site:
            return f"/sites/{quote(self.site)}"
        if self.queue:
            return "/queues"
        return "/log" if self.action == "reconcile" else "/failures"


_FIELDS = ("site", "stage", "error", "document", "queue")


@dataclass(frozen=True)
class ActionResult:
    would: str
    done: str = ""
    details: list[str] = field(default_factory=list)
    changes: bool = True
    """False: there is nothing to do, and `would` says why."""

    def said(self) -> str:
        return self.done if self.changes else self.would


@dataclass(frozen=True)
class _Site:
    name: str
    run_id: int | None
    stage: str | None
    outcome: str | None
    paused_by: str | None

    @property
    def going(self) -> str | None:
        """The run that is going, in words."""
        return f"run {self.run_id}" if self.stage in STAGES and self.outcome is None else None

    def after(self, run_id: int | None) -> str:
        """How a retry comes about that ends in `run_id`."""
        if self.going is None:
            return "A new run does just that, and what follows from it."
        if run_id == self.run_id:
            return f"It is done within {self.going}, which is in {self.stage}."
        return f"A new run does just that, and what follows from it. {self.going.capitalize()} ends in its favour."


def _site(connection: Connection, asked: ActionRequest) -> _Site:
    if not asked.site:
        raise NotAnAction("Say which site.")
    row = connection.execute(
        "select subdomain, run_id, current_stage, outcome, case when paused then coalesce(paused_by, '') end"
        " from pipeline_overview where subdomain = %s",
        [asked.site],
    ).fetchone()
    if row is None:
        raise site_unknown(connection, asked.site)
    return _Site(*row)


def _retry(connection: Connection, asked: ActionRequest, who: str, dry_run: bool) -> ActionResult:
    if asked.document:
        return _retry_document(connection, asked, dry_run)
    if asked.error or not asked.site:
        return _retry_group(connection, asked, dry_run)
    site = _site(connection, asked)
    failed = retryable_units(connection, site.name, asked.stage or None)
    with connection.transaction(force_rollback=dry_run):
        retried = engine.retry_failed(connection, site.name, asked.stage or None)
    if not retried.units:
        return ActionResult(f"Nothing has failed in {asked.stage or 'any stage'} of {site.name}.", changes=False)
    what = _counted(retried.units, retried.stage) + (f" of {retried.stage}" if retried.stage else "")
    return ActionResult(
        f"{what} of {site.name} will be tried again.",
        f"{what} of {site.name} tried again in run {retried.run_id}.",
        [
            *(
                f"{_counted(one['units'], one['stage'])} of {one['stage']} failed with {one['error_code']}"
                for one in failed
            ),
            site.after(retried.run_id),
        ],
    )


def _retry_document(connection: Connection, asked: ActionRequest, dry_run: bool) -> ActionResult:
    site = _site(connection, asked)
    row = connection.execute(
        "select concat_ws(' ', kind, meeting, date), coalesce(error_code, 'unknown'), coalesce(error_message, '')"
        " from failing_documents where subdomain = %s and content_item_id = %s and stage = %s",
        [site.name, int(asked.document), asked.stage],
    ).fetchone()
    with connection.transaction(force_rollback=dry_run):
        retried = engine.retry_units(connection, site.name, asked.stage, [int(asked.document)])
    if row is None or not retried.units:
        return ActionResult(f"That document of {site.name} has not failed for good in {asked.stage}.", changes=False)
    name, code, message = row
    return ActionResult(
        f"{name} of {site.name} will be tried again in {asked.stage}.",
        f"{name} of {site.name} tried again in run {retried.run_id}.",
        [f"It failed with {code}: {message}", site.after(retried.run_id)],
    )


def _retry_group(connection: Connection, asked: ActionRequest, dry_run: bool) -> ActionResult:
    if not asked.error and not asked.stage:
        raise NotAnAction("Say which failures: of a site, of a stage, or of a class.")
    if asked.site:
        _site(connection, asked)
    group = Group(asked.site or None, asked.stage or None, asked.error or None)
    sites = list(retry_group(connection, group, dry_run))
    units = sum(sum(one.units.values()) for one in sites)
    problems = [f"{one.site}: {one.problem}" for one in sites if one.problem]
    which = f"of {pluralize(len(sites) - len(problems), 'site')} that failed"
    if asked.stage:
        which += f" in {asked.stage}"
    if asked.error:
        which += f" with {asked.error}"
    if not sites:
        return ActionResult(f"There is nothing {which.removeprefix('of 0 sites ')}.", changes=False)
    shown = [
        f"{one.site}: {join_words([f'{number:,} in {stage}' for stage, number in one.units.items()])}"
        for one in sites
        if not one.problem
    ]
    more = len(shown) - _SHOWN_AT_MOST
    return ActionResult(
        f"{pluralize(units, 'unit')} {which} will be tried again.",
        f"{pluralize(units, 'unit')} {which} tried again."
        + (f" {pluralize(len(problems), 'site')} could not be: {join_words(problems[:3])}." if problems else ""),
        [
            *shown[:_SHOWN_AT_MOST],
            *([f"and {pluralize(more, 'more site')}"] if more > 0 else []),
            *(f"Not {problem}" for problem in problems[:_SHOWN_AT_MOST]),
            "Where the stage is going on, within it; elsewhere a new run does just that, and what follows from it.",
        ],
    )


def _update(connection: Connection, asked: ActionRequest, who: str, dry_run: bool) -> ActionResult:
    site = _site(connection, asked)
    with connection.transaction(force_rollback=dry_run):
        run_id = engine.start_run(connection, site.name, f"requested by {who}")
        log_action(connection, "update", site.name, run_id)
    held = [f"{site.name} is paused: its jobs wait until it is resumed."] if site.paused_by is not None else []
    return ActionResult(
        f"A run of {site.name} will start: it fetches what is new, reads it, and publishes the archive if it changed.",
        f"Run {run_id} of {site.name} started.",
        held,
    )


def _cancel(connection: Connection, asked: ActionRequest, who: str, dry_run: bool) -> ActionResult:
    site = _site(connection, asked)
    with connection.transaction(force_rollback=dry_run):
        run_id = engine.cancel_run(connection, site.name, f"cancelled by {who}")
    if run_id is None:
        return ActionResult(f"No run of {site.name} is going.", changes=False)
    return ActionResult(
        f"Run {run_id} of {site.name}, which is in {site.stage}, will be ended as cancelled.",
        f"Run {run_id} of {site.name} cancelled.",
        ["What was read stays. What was open is taken up by the next run."],
    )


def _pause(connection: Connection, asked: ActionRequest, who: str, dry_run: bool) -> ActionResult:
    what, whose = _of_site_or_queue(connection, asked)
    with connection.transaction(force_rollback=dry_run):
        if asked.queue:
            changed = engine.pause_queue(connection, asked.queue, who)
        else:
            changed = engine.pause_site(connection, asked.site, who)
    if not changed:
        return ActionResult(f"{what} is paused already.", changes=False)
    return ActionResult(
        f"{whose} will be held back until somebody resumes it.",
        f"{what} paused.",
        ["What runs goes on to its end.", *_caution(asked)],
    )


def _resume(connection: Connection, asked: ActionRequest, who: str, dry_run: bool) -> ActionResult:
    what, whose = _of_site_or_queue(connection, asked)
    with connection.transaction(force_rollback=dry_run):
        if asked.queue:
            changed = engine.resume_queue(connection, asked.queue)
        else:
            changed = engine.resume_site(connection, asked.site)
    if not changed:
        return ActionResult(f"{what} is not paused.", changes=False)
    return ActionResult(f"{whose} will go on.", f"{what} resumed.")


def _of_site_or_queue(connection: Connection, asked: ActionRequest) -> tuple[str, str]:
    if bool(asked.site) == bool(asked.queue):
        raise NotAnAction("Say which site or which queue.")
    if asked.site:
        return asked.site, f"The waiting jobs of {_site(connection, asked).name}"
    waiting = connection.execute(
        "select coalesce(sum(waiting + scheduled), 0) from queue_backlog where queue = %s", [asked.queue]
    ).fetchone()
    assert waiting is not None
    return f"The queue {asked.queue}", f"All jobs of the queue {asked.queue} ({waiting[0]:,} wait there now)"


def _caution(asked: ActionRequest) -> list[str]:
    if asked.queue != "coordinator":
        return []
    return ["This queue also starts the next stage of every run, and carries the schedule and reconciliation."]


def _reconcile(connection: Connection, asked: ActionRequest, who: str, dry_run: bool) -> ActionResult:
    with connection.transaction(force_rollback=dry_run):
        deferred = engine.defer_reconciliation(connection)
    if not deferred:
        return ActionResult("A reconciliation waits for a worker already.", changes=False)
    return ActionResult(
        "A worker that reads the queue coordinator will look for what reality broke, and mend it, as workers do every"
        " 15 minutes.",
        "A reconciliation waits for a worker that reads the queue coordinator.",
        ["Sites that moved within the last two hours are left alone; jobs of dead workers never wait."],
    )


def _counted(units: int, stage: str | None) -> str:
    return pluralize(units, "document" if stage in ("ocr", "extraction") else "unit")


@dataclass(frozen=True)
class Action:
    title: str
    button: str
    make: Callable[[Connection, ActionRequest, str, bool], ActionResult]
    """Takes who asks, and whether it is to be taken back."""


ACTIONS = {
    "retry": Action("Try again what failed?", "Try again", _retry),
    "update": Action("Start a run?", "Start the run", _update),
    "cancel": Action("Cancel the run?", "Cancel the run", _cancel),
    "pause": Action("Pause?", "Pause", _pause),
    "resume": Action("Resume?", "Resume", _resume),
    "reconcile": Action("Reconcile now?", "Reconcile", _reconcile),
}
