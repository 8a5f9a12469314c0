"""One job: its arguments, attempts with errors and tracebacks, claim and lease, and events."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from psycopg import sql
from psycopg.rows import DictRow
from starlette.requests import Request
from starlette.responses import Response

from clerk.errors import job_error_class
from clerk.web.db import ReadOnlyPool, SampleQuery, fetch_rows
from clerk.web.rendering import render

_MAX_EVENTS = 200
_JOB = sql.SQL("select * from job_overview where job_id = %(job)s")
_EVENTS = sql.SQL("""
    select * from (select event_id, at, type from job_history where job_id = %(job)s order by event_id desc
                   limit %(events)s) latest
    order by event_id
""")
_FAILURES = sql.SQL("""
    select attempt, at, error_code, error_message, traceback, host
    from job_failures where job_id = %(job)s order by attempt
""")
QUERIES: list[SampleQuery] = [(query, {"job": 1, "events": 1}) for query in (_JOB, _EVENTS, _FAILURES)]
STATUS = {
    "todo": "waiting",
    "doing": "running",
    "succeeded": "succeeded",
    "failed": "failed",
    "cancelled": "cancelled",
    "aborted": "stopped",
}
"""Status of a job → as shown to people."""
EVENTS = {
    "deferred": "created",
    "started": "started",
    "deferred_for_retry": "failed, to be retried",
    "succeeded": "succeeded",
    "failed": "failed",
    "cancelled": "cancelled",
    "abort_requested": "asked to stop",
    "aborted": "stopped",
    "scheduled": "scheduled",
    "retried": "retried by an operator",
}
_ENDS = ("succeeded", "failed", "deferred_for_retry", "aborted", "cancelled")
_NEVER = 9000
"""The year to which jobs on hold are scheduled."""


@dataclass
class AttemptView:
    """One attempt: from its events, and its error if it failed."""

    number: int
    started_at: datetime | None = None
    ended_at: datetime | None = None
    result: str = ""
    error: DictRow | None = None

    @property
    def took(self) -> timedelta | None:
        return self.ended_at - self.started_at if self.started_at and self.ended_at else None

    @property
    def remedy(self) -> str:
        return job_error_class(self.error["error_code"]).remedy if self.error else ""


@dataclass(frozen=True)
class JobView:
    row: DictRow
    attempts: list[AttemptView]
    """The latest first."""
    events: list[DictRow]

    @property
    def status(self) -> str:
        if self.is_on_hold:
            return "on hold"
        return "scheduled" if self.row["status"] == "todo" and self.row["scheduled_at"] else STATUS[self.row["status"]]

    @property
    def is_on_hold(self) -> bool:
        """Whether its site or queue is paused."""
        at = self.row["scheduled_at"]
        return self.row["status"] == "todo" and at is not None and at.year >= _NEVER

    @property
    def arguments(self) -> dict[str, str]:
        return {
            name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            for name, value in self.row["args"].items()
        }


def show(request: Request) -> Response:
    number = request.path_params["job"]
    job = read_job(request.app.state.pool, number) if number < 2**63 else None
    if job is None:
        return render("job_missing.html", 404, number=number)
    return render("job.html", job=job, row=job.row, labels=EVENTS, latest_events=_MAX_EVENTS)


def read_job(pool: ReadOnlyPool, number: int) -> JobView | None:
    values = {"job": number, "events": _MAX_EVENTS}
    with pool.transaction() as connection:
        rows = fetch_rows(connection, _JOB, values)
        if not rows:
            return None
        events = fetch_rows(connection, _EVENTS, values)
        failures = fetch_rows(connection, _FAILURES, values)
    return JobView(rows[0], attempts_of(events, failures, rows[0]["attempts"]), events)


def attempts_of(events: Iterable[DictRow], failures: Iterable[DictRow], ended: int) -> list[AttemptView]:
    """The attempts, the latest first, numbered back from the number of those that have `ended`: older events may have
    been left out."""
    found: list[AttemptView] = []
    for event in events:
        if event["type"] == "started":
            found.append(AttemptView(0, event["at"]))
        elif event["type"] in _ENDS and found and found[-1].ended_at is None:
            found[-1].ended_at, found[-1].result = event["at"], EVENTS[event["type"]]
    is_running = bool(found) and found[-1].ended_at is None
    last = ended + is_running
    for number, attempt in zip(range(last, 0, -1), reversed(found), strict=False):
        attempt.number = number
    by_number: dict[Any, AttemptView] = {attempt.number: attempt for attempt in found if attempt.number}
    for failure in failures:
        by_number.setdefault(failure["attempt"], AttemptView(failure["attempt"], None, failure["at"], "failed"))
        by_number[failure["attempt"]].error = failure
    return [by_number[number] for number in sorted(by_number, reverse=True)]
