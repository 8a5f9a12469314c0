"""What `clerk up` shows, read from a few views in one short transaction: often, so only what is quick to read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString

import psycopg
from psycopg.rows import class_row, dict_row

from clerk.db.connection import read_only_snapshot
from clerk.humanize import one_line_error, pluralize
from clerk.monitoring.workers import Worker, read_workers

Connection = psycopg.Connection[Any]

_STAGES = """
select m.stage, coalesce(c.sites, 0)::integer as sites, coalesce(c.total, 0)::integer as total,
       coalesce(c.completed, 0)::integer as completed, coalesce(c.failed, 0)::integer as failed,
       coalesce(b.waiting, 0)::integer as waiting, coalesce(b.scheduled, 0)::integer as later,
       coalesce(b.running, 0)::integer as running, coalesce(b.paused, false) as paused,
       (m.succeeded + m.failed)::integer as jobs_last_minute
from jobs_last_minute m
left join queue_backlog b on b.queue = m.stage
left join (
    select v.stage, count(*) filter (where o.phase = v.phase) as sites,
           sum(v.total) as total, sum(v.completed) as completed, sum(v.failed) as failed
    from pipeline_overview o
    cross join lateral (values
        ('fetch', 1, o.fetch_total, o.fetch_completed, o.fetch_failed),
        ('ocr', 2, o.ocr_total, o.ocr_completed, o.ocr_failed),
        ('compilation', 3, o.compilation_total, o.compilation_completed, o.compilation_failed),
        ('extraction', 3, o.extraction_total, o.extraction_completed, o.extraction_failed),
        ('deploy', 4, o.deploy_total, o.deploy_completed, o.deploy_failed)
    ) v (stage, phase, total, completed, failed)
    group by v.stage
) c on c.stage = m.stage
order by array_position(array['fetch', 'ocr', 'compilation', 'extraction', 'deploy'], m.stage)
"""
_SITES = "select coalesce(current_stage, 'never run') as stage, count(*) as sites from pipeline_overview group by 1"
_OPEN = "select coalesce(sum(waiting + scheduled + running), 0)::integer as jobs from queue_backlog"
_ENDED = """
select ended_at as at, subdomain, outcome, outcome_reason, ocr_total as documents, ocr_failed as failed
from current_runs where ended_at >= clerk_now() - interval '1 hour' order by ended_at desc limit %(most)s
"""
_ERRORS = """
select max(at) as at, subdomain, stage, status, error_code, count(*) as documents,
       (array_agg(concat_ws(' ', meeting, date) order by at desc))[1] as document,
       (array_agg(error_message order by at desc))[1] as error_message
from recent_errors where at >= clerk_now() - interval '1 hour'
group by subdomain, stage, status, error_code order by 1 desc limit %(most)s
"""
_REPAIRS = """
select at, subdomain, found, done, error
from recent_repairs where at >= clerk_now() - interval '1 hour' order by at desc limit %(most)s
"""
_EVENTS = 20


@dataclass(frozen=True)
class Stage:
    stage: str
    sites: int
    """That are in it now."""
    total: int
    """Of every site's present or last run; likewise completed and failed."""
    completed: int
    failed: int
    waiting: int
    later: int
    """Wait for the time of their next attempt."""
    running: int
    paused: bool
    jobs_last_minute: int
    """Jobs that ended in the last minute."""


@dataclass(frozen=True)
class Event:
    at: datetime
    text: str


@dataclass(frozen=True)
class LiveStatus:
    now: datetime
    sites: Mapping[str, int]
    """Where they are → how many: a stage, `completed`, `never run`."""
    stages: list[Stage]
    workers: list[Worker]
    open_jobs: int
    """Wait, wait for their time, or run: of all queues, the coordinators' too."""
    events: list[Event]
    """Of the last hour, the newest first."""


def read_live_status(connection: Connection) -> LiveStatus:
    with read_only_snapshot(connection):
        (now,) = connection.execute("select clerk_now()").fetchone() or (None,)
        assert isinstance(now, datetime)
        with connection.cursor(row_factory=class_row(Stage)) as cursor:
            stages = cursor.execute(_STAGES).fetchall()
        return LiveStatus(
            now,
            {row["stage"]: row["sites"] for row in _rows(connection, _SITES)},
            stages,
            read_workers(connection),
            _rows(connection, _OPEN)[0]["jobs"],
            _events(connection),
        )


def _events(connection: Connection) -> list[Event]:
    found = [
        *(Event(row["at"], _ended(row)) for row in _rows(connection, _ENDED)),
        *(Event(row["at"], _error(row)) for row in _rows(connection, _ERRORS)),
        *(Event(row["at"], _repair(row)) for row in _rows(connection, _REPAIRS)),
    ]
    return sorted(found, key=lambda event: event.at, reverse=True)[:_EVENTS]


def _ended(row: dict[str, Any]) -> str:
    text = f"{row['subdomain']}: {row['outcome'].replace('_', ' ')}"
    if row["outcome"] in ("succeeded", "partial"):
        read = pluralize(row["documents"] - row["failed"], "document")
        text += f", {read} read" + (f", {row['failed']:,} failed" if row["failed"] else "")
    elif row["outcome_reason"]:
        text += f", {row['outcome_reason']}"
    return text


def _error(row: dict[str, Any]) -> str:
    """A document that fails is named, many that fail for one reason are counted."""
    of = row["document"] if row["documents"] == 1 else pluralize(row["documents"], "document")
    again = ", tried again" if row["status"] == "failed_retryable" else ""
    error = one_line_error(row["error_code"], row["error_message"])
    return f"{row['subdomain']}: {row['stage']}{f' of {of}' if of else ''} failed{again}: {error}"


def _repair(row: dict[str, Any]) -> str:
    how = f"could not be mended: {row['error']}" if row["error"] else row["done"]
    return f"{row['subdomain'] or 'pipeline'}: {row['found']}; {how}"


def _rows(connection: Connection, query: LiteralString) -> list[dict[str, Any]]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(query, {"most": _EVENTS}).fetchall()
