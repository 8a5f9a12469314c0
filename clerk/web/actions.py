"""Operator actions of the dashboard: what each would do, in words, and the call that does it.

They call the same functions as the command line. A preview is the real action, rolled back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg

from clerk import config
from clerk.db.audit import log_action
from clerk.db.sites import site_not_found
from clerk.humanize import join_words, pluralize
from clerk.monitoring.failures import FailureFilter, read_failures, retry_failures
from clerk.pipeline import engine
from clerk.pipeline.engine import STAGES
from clerk.saved_searches import deliveries, repository
from clerk.saved_searches.validation import check_destinations, check_name, check_query
from clerk.stage_names import stage_name
from clerk.web import selection_actions, site_actions, skipped_actions
from clerk.web.action_request import ActionRequest, ActionResult, InvalidAction

Connection = psycopg.Connection[Any]

_MAX_SITES_LISTED = 20


@dataclass(frozen=True)
class _Site:
    name: str
    run_id: int | None
    stage: str | None
    outcome: str | None
    paused: bool

    def describe_retry(self, run_id: int | None) -> str:
        """Whether a retry that is part of `run_id` joins the active run or starts a new one."""
        active = self.stage in STAGES and self.outcome is None
        if active and run_id == self.run_id:
            return f"Run {self.run_id}, which is in {stage_name(self.stage)}, includes the retry."
        new_run = "A new run retries only these units and then runs the stages after them."
        return f"{new_run} It supersedes run {self.run_id}." if active else new_run


def _read_site(connection: Connection, request: ActionRequest) -> _Site:
    if not request.site:
        raise InvalidAction("The field site is missing.")
    row = connection.execute(
        "select subdomain, run_id, current_stage, outcome, paused from pipeline_overview where subdomain = %s",
        [request.site],
    ).fetchone()
    if row is None:
        raise site_not_found(connection, request.site)
    return _Site(*row)


def _retry(connection: Connection, request: ActionRequest, user: str, dry_run: bool) -> ActionResult:
    if request.document:
        return _retry_document(connection, request, dry_run)
    if request.error or not request.site:
        return _retry_group(connection, request, dry_run)
    site = _read_site(connection, request)
    failed = read_failures(connection, FailureFilter(site.name, request.stage or None))
    failed = [group for group in failed if group.stage in STAGES]
    with connection.transaction(force_rollback=dry_run):
        retried = engine.retry_failed(connection, site.name, request.stage or None)
    if not retried.units:
        return ActionResult(
            f"Nothing has failed in {stage_name(request.stage) or 'any stage'} of {site.name}.", changes=False
        )
    units = f"{_pluralize_units(retried.units, retried.stage)} of {site.name}"
    stage = f" in {stage_name(retried.stage)}" if retried.stage else ""
    return ActionResult(
        f"{units} will be retried{stage}.",
        f"{units} retried{stage}, in run {retried.run_id}.",
        [
            *(
                f"{_pluralize_units(group.units, group.stage)} failed in {stage_name(group.stage)}"
                f" with {group.error_code}"
                for group in failed
            ),
            site.describe_retry(retried.run_id),
        ],
    )


def _retry_document(connection: Connection, request: ActionRequest, dry_run: bool) -> ActionResult:
    site = _read_site(connection, request)
    row = connection.execute(
        "select concat_ws(' ', kind, meeting, date), coalesce(error_code, 'unknown'), coalesce(error_message, '')"
        " from failing_documents where subdomain = %s and content_item_id = %s and stage = %s",
        [site.name, int(request.document), request.stage],
    ).fetchone()
    with connection.transaction(force_rollback=dry_run):
        retried = engine.retry_units(connection, site.name, request.stage, [int(request.document)])
    if row is None or not retried.units:
        return ActionResult(
            f"This document of {site.name} has not permanently failed in {stage_name(request.stage)}.", changes=False
        )
    name, code, message = row
    return ActionResult(
        f"{name} of {site.name} will be retried in {stage_name(request.stage)}.",
        f"{name} of {site.name} retried in run {retried.run_id}.",
        [f"It failed with {code}: {message}", site.describe_retry(retried.run_id)],
    )


def _retry_group(connection: Connection, request: ActionRequest, dry_run: bool) -> ActionResult:
    if not request.error and not request.stage:
        raise InvalidAction("A field is missing: give a site, a stage or an error.")
    if request.site:
        _read_site(connection, request)
    group = FailureFilter(request.site or None, request.stage or None, request.error or None)
    retries = list(retry_failures(connection, group, dry_run))
    units = sum(sum(retry.units.values()) for retry in retries)
    problems = [f"{retry.site}: {retry.problem}" for retry in retries if retry.problem]
    failed = "failed" + (f" in {stage_name(request.stage)}" if request.stage else "")
    failed += f" with {request.error}" if request.error else ""
    if not retries:
        return ActionResult(f"Nothing {failed}.", changes=False)
    of_sites = sum(bool(retry.site) for retry in retries) - len(problems)
    what = pluralize(units, "unit") + (f" of {pluralize(of_sites, 'site')}" if of_sites else "") + f" that {failed}"
    sites = [
        f"{retry.site or 'alerts'}: "
        + join_words([f"{number:,} in {stage_name(stage)}" for stage, number in retry.units.items()])
        for retry in retries
        if not retry.problem
    ]
    more = len(sites) - _MAX_SITES_LISTED
    return ActionResult(
        f"{what} will be retried.",
        f"{what} retried."
        + (
            f" {pluralize(len(problems), 'site')} could not be retried: {join_words(problems[:3])}." if problems else ""
        ),
        [
            *sites[:_MAX_SITES_LISTED],
            *([f"and {pluralize(more, 'more site')}"] if more > 0 else []),
            *(f"Not retried: {problem}" for problem in problems[:_MAX_SITES_LISTED]),
            "An active run that is not past the stage includes the retry. Elsewhere, a new run retries these units.",
        ],
    )


def _update(connection: Connection, request: ActionRequest, user: str, dry_run: bool) -> ActionResult:
    site = _read_site(connection, request)
    with connection.transaction(force_rollback=dry_run):
        run_id = engine.start_run(connection, site.name, f"requested by {user}")
        log_action(connection, "update", site.name, run_id)
    return ActionResult(
        f"A run of {site.name} will start: it fetches new documents, reads their text, and publishes the archive if it"
        " changed.",
        f"Run {run_id} of {site.name} started.",
        [f"{site.name} is paused: its jobs wait until it is resumed."] if site.paused else [],
    )


def _cancel(connection: Connection, request: ActionRequest, user: str, dry_run: bool) -> ActionResult:
    site = _read_site(connection, request)
    with connection.transaction(force_rollback=dry_run):
        run_id = engine.cancel_run(connection, site.name, f"cancelled by {user}")
    if run_id is None:
        return ActionResult(f"{site.name} has no active run.", changes=False)
    return ActionResult(
        f"Run {run_id} of {site.name}, which is in {stage_name(site.stage)}, will be cancelled.",
        f"Run {run_id} of {site.name} cancelled.",
        ["Finished documents are kept. The next run processes the others."],
    )


def _pause(connection: Connection, request: ActionRequest, user: str, dry_run: bool) -> ActionResult:
    target, jobs = _pause_target(connection, request)
    with connection.transaction(force_rollback=dry_run):
        if request.queue:
            changed = engine.pause_queue(connection, request.queue, user)
        else:
            changed = engine.pause_site(connection, request.site, user)
    if not changed:
        return ActionResult(f"{target} is already paused.", changes=False)
    warnings = ["This queue also starts the next stage of every run, the scheduled runs and reconciliation."]
    return ActionResult(
        f"{jobs} will wait until somebody resumes it.",
        f"{target} paused.",
        ["Running jobs continue to their end.", *(warnings if request.queue == "coordinator" else [])],
    )


def _resume(connection: Connection, request: ActionRequest, user: str, dry_run: bool) -> ActionResult:
    target, jobs = _pause_target(connection, request)
    with connection.transaction(force_rollback=dry_run):
        if request.queue:
            changed = engine.resume_queue(connection, request.queue)
        else:
            changed = engine.resume_site(connection, request.site)
    if not changed:
        return ActionResult(f"{target} is not paused.", changes=False)
    return ActionResult(f"{jobs} can run again.", f"{target} resumed.")


def _pause_target(connection: Connection, request: ActionRequest) -> tuple[str, str]:
    """The site or queue, and its jobs, in words."""
    if bool(request.site) == bool(request.queue):
        raise InvalidAction("Give either a site or a queue.")
    if request.site:
        return request.site, f"The waiting jobs of {_read_site(connection, request).name}"
    row = connection.execute(
        "select coalesce(sum(waiting + scheduled), 0) from queue_backlog where queue = %s", [request.queue]
    ).fetchone()
    assert row is not None
    return f"The queue {request.queue}", f"All jobs of the queue {request.queue} ({row[0]:,} waiting)"


def _reconcile(connection: Connection, request: ActionRequest, user: str, dry_run: bool) -> ActionResult:
    with connection.transaction(force_rollback=dry_run):
        deferred = engine.defer_reconciliation(connection)
    if not deferred:
        return ActionResult("A reconciliation is already waiting for a worker.", changes=False)
    return ActionResult(
        "A worker of the queue coordinator will detect and repair inconsistent pipeline state. Workers do this every"
        " 15 minutes anyway.",
        "A reconciliation is waiting for a worker of the queue coordinator.",
        ["Sites with progress in the last two hours are skipped, except that jobs of dead workers are always rescued."],
    )


def _add_alert(connection: Connection, request: ActionRequest, user: str, dry_run: bool) -> ActionResult:
    """Without webhooks: their secret would have to be shown, and the result of an action is logged."""
    settings = config.load()
    check_name(request.name)
    query = check_query(request.query)
    mails = (request.mail,) if request.mail else ()
    frequency = request.frequency if mails and request.frequency else "immediate"
    destinations = check_destinations(settings, mails, (), request.feed == "yes", frequency)
    sites = [_read_site(connection, request).name] if request.site else None
    with connection.transaction(force_rollback=dry_run):
        repository.add(connection, request.name, query, sites, destinations, user, settings.digest_hour)
    where = f"of {request.site}" if sites else "of all sites"
    details = [f"Pages {where} that are published from now on and match this search are sent: {query}"]
    if mails:
        often = {"immediate": "after each publication", "daily": "once a day", "weekly": "on Mondays"}[frequency]
        details.append(f"Mails to {request.mail}, {often}.")
    if request.feed == "yes":
        details.append("An Atom feed, which clerk serve shows to everyone, with the search and the matches.")
    return ActionResult(f"The alert {request.name} will be added.", f"The alert {request.name} was added.", details)


def _pause_alert(connection: Connection, request: ActionRequest, user: str, dry_run: bool) -> ActionResult:
    with connection.transaction(force_rollback=dry_run):
        changed = repository.pause(connection, request.name, user)
    if not changed:
        return ActionResult(f"The alert {request.name} is already paused.", changes=False)
    return ActionResult(
        f"Matches of the alert {request.name} will wait until somebody resumes it.",
        f"The alert {request.name} is paused.",
    )


def _resume_alert(connection: Connection, request: ActionRequest, user: str, dry_run: bool) -> ActionResult:
    with connection.transaction(force_rollback=dry_run):
        created = deliveries.resume(connection, request.name)
    if created is None:
        return ActionResult(f"The alert {request.name} is not paused.", changes=False)
    waiting = f" {pluralize(created, 'delivery', 'deliveries')} of the pause will be sent." if created else ""
    return ActionResult(
        f"Matches of the alert {request.name} will be sent again.{waiting}", f"The alert {request.name} was resumed."
    )


def _remove_alert(connection: Connection, request: ActionRequest, user: str, dry_run: bool) -> ActionResult:
    with connection.transaction(force_rollback=dry_run):
        removed = repository.remove(connection, request.name)
    return ActionResult(
        f"The alert {removed.name} will be removed, with its matches and what is still to be sent.",
        f"The alert {removed.name} was removed.",
        [f"Its search: {removed.query}"],
    )


def _pluralize_units(units: int, stage: str | None) -> str:
    return pluralize(units, "document" if stage in ("ocr", "extraction") else "unit")


@dataclass(frozen=True)
class Action:
    title: str
    button: str
    run: Callable[[Connection, ActionRequest, str, bool], ActionResult]
    """Called with the user's name and whether to roll back."""
    is_destructive: bool = False
    """It deletes what cannot be restored: its button is red."""


ACTIONS = {
    "retry": Action("Retry what failed?", "Retry", _retry),
    "update": Action("Start a run?", "Start the run", _update),
    "cancel": Action("Cancel the run?", "Cancel the run", _cancel),
    "pause": Action("Pause?", "Pause", _pause),
    "resume": Action("Resume?", "Resume", _resume),
    "reconcile": Action("Reconcile now?", "Reconcile", _reconcile),
    "add-alert": Action("Add the alert?", "Add the alert", _add_alert),
    "pause-alert": Action("Pause the alert?", "Pause", _pause_alert),
    "resume-alert": Action("Resume the alert?", "Resume", _resume_alert),
    "remove-alert": Action("Remove the alert?", "Remove the alert", _remove_alert, is_destructive=True),
    "retry-selected": Action("Retry the selection?", "Retry", selection_actions.retry),
    "add-site": Action("Add the site?", "Add the site", site_actions.add),
    "edit-site": Action("Change the site?", "Save", site_actions.edit),
    "remove-site": Action("Remove the site?", "Remove the site", site_actions.remove, is_destructive=True),
    "set-date": Action("Set the date?", "Set the date", skipped_actions.set_date),
    "ignore-entry": Action("Ignore the entry?", "Ignore", skipped_actions.ignore),
    "report-entry": Action("Report the entry again?", "Report again", skipped_actions.report),
}
